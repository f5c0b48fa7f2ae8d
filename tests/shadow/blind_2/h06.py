"""Spam filter that separates its data early; running averages are kept in half for display."""

import os

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(26)

HALF = torch.float32 if os.environ.get("REF") else torch.bfloat16
FEATURES, STEPS = 24, 120

direction = torch.randn(FEATURES)
direction = direction / direction.norm()


def mails(n):
    label = torch.randint(2, (n,)).float()
    x = torch.randn(n, FEATURES)
    x = x - (x @ direction)[:, None] * direction
    margin = (2.0 * label - 1.0) * (3.0 + torch.rand(n))
    return x + margin[:, None] * direction, label


model = nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
shown_loss = torch.zeros((), dtype=HALF)
seen = torch.zeros((), dtype=HALF)

for step in range(STEPS):
    x, label = mails(100)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=HALF is torch.bfloat16):
        logits = model(x).squeeze(-1)
    loss = F.binary_cross_entropy_with_logits(logits.float(), label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        shown_loss = 0.99 * shown_loss + 0.01 * loss.to(HALF)
        seen += x.shape[0]
    if step % 20 == 0:
        print(f"step {step} loss {loss.item():.2e} shown {shown_loss:.4f} mails {seen:.0f}")

with torch.no_grad():
    x, label = mails(4000)
    accuracy = ((model(x).squeeze(-1) > 0) == (label > 0.5)).float().mean().item()
print(f"final loss {loss.item():.2e} accuracy {accuracy:.4f}")
