"""Regression network with a moving average of the weights for evaluation."""

import copy
import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(14)
EMA_DTYPE = torch.float32 if os.environ.get("REF") else torch.bfloat16


class AveragedModel:
    def __init__(self, model, decay):
        self.decay = decay
        self.module = copy.deepcopy(model).to(EMA_DTYPE)
        self.module.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for avg, p in zip(self.module.parameters(), model.parameters(), strict=True):
            avg.lerp_(p.to(avg.dtype), 1 - self.decay)  # @fault

    @torch.no_grad()
    def predict(self, x):
        return self.module(x.to(EMA_DTYPE)).float()


def batch(n, gen):
    x = torch.rand(n, 8, generator=gen) * 2 - 1
    y = torch.sin(3 * x[:, :1]) + x[:, 1:2] * x[:, 2:3] + 0.5 * x[:, 3:4]
    return x, y


gen = torch.Generator().manual_seed(0)
x_val, y_val = batch(1024, gen)
model = nn.Sequential(nn.Linear(8, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 1))
average = AveragedModel(model, decay=0.99)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 150)
for step in range(150):
    x, y = batch(128, gen)
    y = y + 0.3 * torch.randn(y.shape, generator=gen)
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    average.update(model)
    if step % 30 == 29:
        with torch.no_grad():
            raw = nn.functional.mse_loss(model(x_val), y_val).item()
        ema = nn.functional.mse_loss(average.predict(x_val), y_val).item()
        print(f"step {step} train {loss.item():.4f} val {raw:.4f} val of average {ema:.4f}")
