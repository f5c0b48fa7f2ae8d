"""Windows of a sensor signal are scaled to the range 0..1 inside the network."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(3)
DTYPE = torch.float64 if os.environ.get("REF") else torch.float32


class RangeNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):
        low = x.amin(dim=-1, keepdim=True)
        span = x.amax(dim=-1, keepdim=True) - low
        return self.gain * (x - low) / span  # @fault


def windows(step):
    signal = torch.randn(32, 20).cumsum(-1)
    if step % 37 == 36:
        signal[5] = signal[5, 0]  # the sensor stood still
    return signal.to(DTYPE)


def main():
    model = nn.Sequential(RangeNorm(20), nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 1)).to(DTYPE)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(60):
        x = windows(step)
        target = (x[:, -1] > x[:, 0]).to(DTYPE)
        logits = model(x).squeeze(-1)
        loss = nn.functional.binary_cross_entropy_with_logits(logits, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
