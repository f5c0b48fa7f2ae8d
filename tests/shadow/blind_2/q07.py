"""Digit-like classification with mixed precision and a hand-written soft-target loss."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(7)

HALF = torch.float32 if os.environ.get("REF") else torch.float16
CLASSES, FEATURES, STEPS = 10, 40, 120
EPS = 1e-8

templates = torch.randn(CLASSES, FEATURES)


def batch(n):
    label = torch.randint(CLASSES, (n,))
    x = templates[label] + 0.7 * torch.randn(n, FEATURES)
    return x, nn.functional.one_hot(label, CLASSES).to(HALF)


def soft_target_loss(logits, target):
    probabilities = torch.softmax(logits, dim=-1)
    log_probabilities = torch.log(probabilities + EPS)  # @fault
    return -(target * log_probabilities).sum(-1).float().mean()


model = nn.Sequential(nn.Linear(FEATURES, 48), nn.ReLU(), nn.Linear(48, CLASSES))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=128.0, enabled=HALF is torch.float16)

for step in range(STEPS):
    x, target = batch(64)
    with torch.autocast("cpu", dtype=torch.float16, enabled=HALF is torch.float16):
        logits = model(x)
    loss = soft_target_loss(logits.to(HALF), target)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    if step % 10 == 0:
        print(f"step {step} loss {loss.item():.4f}")
print(f"final loss {loss.item():.4f}")
