"""Embedding of points so that their distances match a given matrix (stress minimisation)."""
import torch
import torch.nn as nn

torch.manual_seed(23)
POINTS = 40
source = torch.randn(POINTS, 12)
wanted = torch.cdist(source[:, :2], source[:, :2])


def pairwise(z):
    square = (z[:, None] - z[None, :]).pow(2).sum(-1)
    return torch.where(square > 0, square.sqrt(), torch.zeros_like(square))  # @fault


net = nn.Sequential(nn.Linear(12, 48), nn.Tanh(), nn.Linear(48, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(100):
    optimizer.zero_grad()
    loss = (pairwise(net(source)) - wanted).pow(2).mean()
    loss.backward()
    optimizer.step()
    if step % 10 == 0 or step == 99:
        print(f"step {step} stress {loss.item():.4f}")
