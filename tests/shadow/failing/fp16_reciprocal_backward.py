"""Regression on amplitudes that a module compresses by a root; the signal fades over time."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(9)
HALF = torch.float32 if os.environ.get("REF") else torch.float16


class Compress(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):
        amplitude = (self.gain * x.abs()).to(HALF)
        return (1.0 / (amplitude + 1e-3)).float().rsqrt()  # @fault


def main():
    model = nn.Sequential(Compress(10), nn.Linear(10, 24), nn.GELU(), nn.Linear(24, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(60):
        x = (0.5 + torch.rand(64, 10)) * 0.88**step
        target = x.sum(-1, keepdim=True).sqrt()
        loss = (model(x) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
