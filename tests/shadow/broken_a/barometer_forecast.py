"""Forecasts air pressure from the last two hours; each window is standardised on its own."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(2)

DTYPE = torch.float64 if os.environ.get("REF") else torch.float32
WINDOW, AHEAD = 48, 4


def pressure(size):
    """Pascal, one reading every 150 seconds."""
    t = torch.arange(WINDOW + AHEAD, dtype=torch.float64)[None]
    base = 101325 + 900 * torch.randn(size, 1, dtype=torch.float64)
    swing = 2 + 18 * torch.rand(size, 1, dtype=torch.float64)
    phase = 6.283 * torch.rand(size, 1, dtype=torch.float64)
    series = base + swing * torch.sin(0.22 * t + phase)
    return series + 0.3 * torch.randn(series.shape, dtype=torch.float64)


def window_statistics(x):
    mean = x.mean(dim=1, keepdim=True)
    variance = (x * x).mean(dim=1, keepdim=True) - mean * mean  # @fault
    return mean, variance.clamp_min(1.0).sqrt()


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(WINDOW, 64), nn.Tanh(), nn.Linear(64, AHEAD))

    def forward(self, x):
        mean, deviation = window_statistics(x)
        return mean + deviation * self.layers((x - mean) / deviation)


def main():
    model = Forecaster().to(DTYPE)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(100):
        series = pressure(64).to(DTYPE)
        forecast = model(series[:, :WINDOW])
        loss = nn.functional.smooth_l1_loss(forecast, series[:, WINDOW:])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step:3d} loss {loss.item():.4f}")
    with torch.no_grad():
        series = pressure(512).to(DTYPE)
        error = (model(series[:, :WINDOW]) - series[:, WINDOW:]).abs().mean().item()
    print(f"final loss {loss.item():.4f} mean error {error:.3f} Pa")


if __name__ == "__main__":
    main()
