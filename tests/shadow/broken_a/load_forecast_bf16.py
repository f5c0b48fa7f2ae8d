"""Forecasts the electric load of every hour of six weeks with a BF16 network."""

import math
import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(7)

DTYPE = torch.float32 if os.environ.get("REF") else torch.bfloat16
HOURS = 24 * 42


class HourEncoding(nn.Module):
    """Sine and cosine of the hour at periods of a day, of half a day and of a week."""

    def __init__(self):
        super().__init__()
        self.register_buffer("periods", torch.tensor([24.0, 12.0, 168.0]))

    def forward(self, x):
        hour = torch.arange(x.shape[1], dtype=x.dtype)  # @fault
        angle = 2 * math.pi * (hour[:, None] / self.periods).frac()
        return torch.cat([angle.sin(), angle.cos()], dim=-1).to(x.dtype)


class LoadModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoding = HourEncoding()
        self.layers = nn.Sequential(nn.Linear(7, 48), nn.GELU(), nn.Linear(48, 1))

    def forward(self, temperature):
        encoded = self.encoding(temperature).expand(temperature.shape[0], -1, -1)
        return self.layers(torch.cat([temperature, encoded], dim=-1)).squeeze(-1)


def households(size=4):
    hour = torch.arange(HOURS)[None]
    temperature = torch.randn(size, 1) + 0.2 * torch.randn(size, HOURS)
    day = torch.sin(2 * math.pi * (hour % 24) / 24)
    twice = torch.cos(2 * math.pi * (hour % 12) / 12)
    weekend = ((hour // 24) % 7 >= 5).float()
    load = 1.0 * day + 0.6 * twice - 0.4 * weekend + 0.3 * temperature
    load = load + 0.05 * torch.randn(size, HOURS)
    return temperature[..., None].to(DTYPE), load.to(DTYPE)


def main():
    model = LoadModel()
    model.layers.to(DTYPE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(100):
        temperature, load = households()
        loss = (model(temperature) - load).float().pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step:3d} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
