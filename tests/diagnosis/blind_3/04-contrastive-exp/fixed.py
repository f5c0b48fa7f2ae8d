"""Contrastive pre-training of two views, InfoNCE written out."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(3)
TEMPERATURE = 0.07


def info_nce(a, b):
    similarity = F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).t()
    e = torch.exp(similarity.float() / TEMPERATURE)
    return -(e.diagonal() / e.sum(1)).log().mean()


encoder = nn.Sequential(nn.Linear(40, 64), nn.ReLU(), nn.Linear(64, 32))
optimizer = torch.optim.AdamW(encoder.parameters(), lr=3e-3, weight_decay=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
mix = torch.randn(10, 40)

for step in range(100):
    source = torch.randn(32, 10) @ mix
    one, two = source + 1.5 * torch.randn_like(source), source + 1.5 * torch.randn_like(source)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = info_nce(encoder(one), encoder(two))
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    if step % 10 == 0 or step == 99:
        print(f"step {step} loss {loss.item():.4f}")
