"""FP16 autocast regression; the scaler starts high and settles after some skipped steps."""

import os

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(22)

AMP = not os.environ.get("REF")
STEPS = 150


class Net(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.first = nn.Linear(12, width)
        self.norm = nn.LayerNorm(width)
        self.second = nn.Linear(width, width)
        self.last = nn.Linear(width, 1)

    def forward(self, x):
        x = F.silu(self.first(x))
        x = x + F.silu(self.second(self.norm(x)))
        return self.last(x).squeeze(-1)


direction = torch.randn(12, 2) / 12**0.5
model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24, growth_interval=20, enabled=AMP)

skipped = 0
for step in range(STEPS):
    x = torch.randn(64, 12)
    projected = x @ direction
    target = torch.sin(projected[:, 0]) + 0.5 * projected[:, 1]
    with torch.autocast("cpu", dtype=torch.float16, enabled=AMP):
        prediction = model(x)
    loss = F.mse_loss(prediction.float(), target)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    skipped += scaler.get_scale() < before
    if step % 20 == 0:
        print(f"step {step} loss {loss.item():.4f} scale {scaler.get_scale():.0f}")
print(f"final loss {loss.item():.4f} skipped {skipped}")
