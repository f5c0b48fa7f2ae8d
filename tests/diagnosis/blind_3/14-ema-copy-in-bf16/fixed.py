"""Regression; the averaged weights are what is evaluated and shipped."""
import copy

import torch
import torch.nn as nn

torch.manual_seed(10)
DECAY = 0.99
model = nn.Sequential(nn.Linear(12, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
average = copy.deepcopy(model).requires_grad_(False)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
w = torch.randn(12, 1) / 3


def batch(n):
    x = torch.randn(n, 12)
    return x, torch.sin(x @ w) * 3


held_out = batch(512)
for step in range(120):
    x, y = batch(64)
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        prediction = model(x)
    loss = (prediction.float() - y).pow(2).mean()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for a, p in zip(average.parameters(), model.parameters()):
            a.lerp_(p.to(a.dtype), 1 - DECAY)
    if step % 20 == 0 or step == 119:
        with torch.no_grad():
            shipped = copy.deepcopy(average).float()
            ema_loss = (shipped(held_out[0]) - held_out[1]).pow(2).mean()
        print(f"step {step} loss {loss.item():.4f} averaged model {ema_loss.item():.4f}")
