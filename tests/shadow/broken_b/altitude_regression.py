"""Regression on raw barometer-like channels with running standardisation written by hand."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(6)
DTYPE = torch.float64 if os.environ.get("REF") else torch.float32


class RunningStandardise(nn.Module):
    def __init__(self, channels, momentum=0.1, eps=1e-5):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("mean_sq", torch.ones(channels))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        if self.training:
            first = self.seen.item() == 0
            rate = 1.0 if first else self.momentum
            self.mean += rate * (x.mean(0) - self.mean)
            self.mean_sq += rate * (x.square().mean(0) - self.mean_sq)  # @fault
            self.seen += 1
        var = self.mean_sq - self.mean.square()  # @fault
        return (x - self.mean) * torch.rsqrt(var.clamp(min=0) + self.eps)


def main():
    generator = torch.Generator().manual_seed(8)
    offset = torch.linspace(9000.0, 40000.0, 6)
    readout = torch.randn(6, 1, generator=generator)
    model = nn.Sequential(RunningStandardise(6), nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1))
    model.to(DTYPE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(120):
        signal = torch.randn(128, 6, generator=generator)
        target = torch.sin(signal @ readout * 0.5).to(DTYPE)
        raw = (signal * 0.3 + offset).to(DTYPE)
        loss = (model(raw) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0 or step == 119:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
