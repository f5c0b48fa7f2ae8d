"""Segmenting bright blobs with a small convolutional network, BF16 autocast."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
SIZE = 20
grid = torch.stack(torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij"), -1).float()


def batch(n):
    centre = torch.rand(n, 1, 1, 2) * SIZE
    inside = ((grid - centre) ** 2).sum(-1) < 30
    return (inside.float() * 2 + torch.randn(n, SIZE, SIZE))[:, None], inside[:, None].float()


class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU())
        self.out = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        return self.out(self.body(x))


def mask_loss(logits, target):
    p = torch.sigmoid(logits)
    return -(target * p.log() + (1 - target) * (1 - p).log()).mean()  # @fault


model = Segmenter()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(40):
    image, target = batch(8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = mask_loss(model(image), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0 or step == 39:
        print(f"step {step} loss {loss.item():.5f}")
