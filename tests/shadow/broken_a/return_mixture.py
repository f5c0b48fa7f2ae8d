"""Mixture density network for daily returns with rare large moves."""

import math
import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(12)

DTYPE = torch.float64 if os.environ.get("REF") else torch.float32
PARTS, FEATURES = 3, 6


class MixtureDensity(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, 48), nn.Tanh())
        self.head = nn.Linear(48, 3 * PARTS)

    def forward(self, x):
        weight, mean, spread = self.head(self.body(x)).chunk(3, dim=-1)
        return weight.softmax(-1), mean, 0.8 + nn.functional.softplus(spread)


def days(size=64):
    x = torch.randn(size, FEATURES)
    move = 0.6 * x[:, 0] + 0.5 * torch.randn(size)
    crash = torch.rand(size) < 0.002
    move = torch.where(crash, move - 26 - 4 * torch.rand(size), move)
    return x.to(DTYPE), move.to(DTYPE)


def negative_log_likelihood(weight, mean, spread, y):
    z = (y[:, None] - mean) / spread
    density = torch.exp(-0.5 * z * z) / (spread * math.sqrt(2 * math.pi))  # @fault
    return -torch.log((weight * density).sum(dim=-1)).mean()  # @fault


def main():
    model = MixtureDensity().to(DTYPE)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(80):
        x, y = days()
        loss = negative_log_likelihood(*model(x), y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 5 == 0:
            print(f"step {step:3d} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
