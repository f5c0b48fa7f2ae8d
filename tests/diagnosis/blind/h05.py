"""Tagging of sparsely annotated, incomplete sensor records."""

import os

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(10)
DTYPE = torch.float64 if os.environ.get("REF") else torch.float32
FEATURES, CLASSES, RECORDS, LENGTH, STEPS = 8, 5, 8, 12, 160
IGNORE = -100

centres = torch.randn(CLASSES, FEATURES) * 2


def records(generator):
    kinds = torch.randint(CLASSES, (RECORDS, LENGTH), generator=generator)
    noise = torch.randn(RECORDS, LENGTH, FEATURES, generator=generator)
    values = centres[kinds] + noise
    lost = torch.rand(values.shape, generator=generator) < 0.15
    values = values.masked_fill(lost, float("nan"))
    share = 0.0 if torch.randint(8, (1,), generator=generator) == 0 else 0.3
    known = torch.rand(kinds.shape, generator=generator) < share
    labels = kinds.masked_fill(~known, IGNORE)
    return values.to(DTYPE), labels, kinds


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.instead = nn.Parameter(torch.zeros(FEATURES))
        self.body = nn.Sequential(
            nn.Linear(2 * FEATURES, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU()
        )
        self.head = nn.Linear(48, CLASSES)

    def forward(self, values):
        lost = values.isnan()
        values = torch.where(lost, self.instead, values)
        return self.head(self.body(torch.cat([values, lost.to(values.dtype)], -1)))


def tagging_loss(logits, labels):
    total = F.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORE, reduction="sum"
    )
    return total / (labels != IGNORE).sum().clamp(min=1)


model = Tagger().to(DTYPE)
opt = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.01)
generator = torch.Generator().manual_seed(20)
right = []
for step in range(STEPS):
    values, labels, kinds = records(generator)
    logits = model(values)
    loss = tagging_loss(logits, labels)
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    right = (right + [(logits.argmax(-1) == kinds).float().mean().item()])[-30:]
    if step % 20 == 0 or step == STEPS - 1:
        print(f"step {step} loss {loss.item():.4f} right {sum(right) / len(right):.4f}")
