"""Stress-minimising embedding of points from sampled pairwise distances."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(241)
DTYPE = torch.float64 if os.environ.get("REF") else torch.float32
POINTS = 3000


def distance(a, b):
    return torch.sqrt((a - b).pow(2).sum(-1))  # @fault


class Embedding(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d_in, 64), nn.SiLU(), nn.Linear(64, d_out))

    def forward(self, x):
        return self.net(x)


angle = torch.rand(POINTS) * 9.0
height = torch.rand(POINTS) * 4.0
data = torch.stack([angle * torch.cos(angle), height, angle * torch.sin(angle)], -1).to(DTYPE)
flat = torch.stack([angle**1.5, height], -1).to(DTYPE)

model = Embedding(3, 2).to(DTYPE)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(120):
    i = torch.randint(POINTS, (64,))
    j = torch.randint(POINTS, (64,))
    target = distance(flat[i], flat[j])
    found = distance(model(data[i]), model(data[j]))
    loss = (found - target).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        print(f"step {step} stress {loss.item():.4f}")
