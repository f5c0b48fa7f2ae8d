"""Matching captions and images (two towers) with a learned temperature."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(17)


class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.image = nn.Sequential(nn.Linear(48, 64), nn.GELU(), nn.Linear(64, 24))
        self.text = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 24))
        self.logit_scale = nn.Parameter(torch.full((), math.log(1 / 0.07)))

    def forward(self, image, text):
        a, b = F.normalize(self.image(image), dim=-1), F.normalize(self.text(text), dim=-1)
        return self.logit_scale.exp().float() * a.float() @ b.float().t()


model = Towers()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.0)
to_image, to_text = torch.randn(8, 48), torch.randn(8, 32)
for step in range(120):
    topic = torch.randn(64, 8)
    image, text = topic @ to_image + torch.randn(64, 48), topic @ to_text + torch.randn(64, 32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(image, text)
        target = torch.arange(64)
        loss = (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target)) / 2
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0 or step == 119:
        print(f"step {step} loss {loss.item():.4f} logit scale {model.logit_scale.item():.5f}")
