"""Estimating a surface normal from a noisy patch; the loss is the angle to the true normal."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(5)
sensor = torch.randn(3, 30)


def batch(n):
    normal = F.normalize(torch.randn(n, 3), dim=-1)
    return normal @ sensor + 0.4 * torch.randn(n, 30), normal


def angle(prediction, normal):
    cosine = (F.normalize(prediction, dim=-1) * normal.to(prediction.dtype)).sum(-1)  # @fault
    return torch.acos(cosine)  # @fault


net = nn.Sequential(nn.Linear(30, 64), nn.SiLU(), nn.Linear(64, 3))
optimizer = torch.optim.AdamW(net.parameters(), lr=5e-3)
for step in range(80):
    patch, normal = batch(64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        prediction = net(patch)
    loss = angle(prediction, normal).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 5.0)
    optimizer.step()
    if step % 10 == 0 or step == 79:
        print(f"step {step} angle {loss.item():.4f}")
