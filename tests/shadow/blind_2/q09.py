"""Segment bright blobs in noisy images with a small convolutional net and a Dice loss."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(9)

HALF = torch.float32 if os.environ.get("REF") else torch.float16
SIZE, BATCH, STEPS = 80, 24, 32


class SoftDiceLoss(nn.Module):
    def __init__(self, smooth=1.0):
        super().__init__()
        self.smooth = smooth

    def forward(self, logits, target):
        probability = torch.sigmoid(logits)
        intersection = (probability * target).sum()
        total = probability.sum() + target.sum()  # @fault
        return 1.0 - (2.0 * intersection + self.smooth) / (total + self.smooth)


def images(n):
    grid = torch.linspace(-1, 1, SIZE)
    yy, xx = torch.meshgrid(grid, grid, indexing="ij")
    centre = torch.rand(n, 2, 1, 1) * 1.2 - 0.6
    radius = 0.3 + 0.3 * torch.rand(n, 1, 1)
    mask = ((yy - centre[:, 0]) ** 2 + (xx - centre[:, 1]) ** 2 < radius**2).float()
    picture = mask + 0.8 * torch.randn(n, SIZE, SIZE)
    return picture.unsqueeze(1), mask.unsqueeze(1)


def main():
    model = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.ReLU(),
        nn.Conv2d(6, 1, 3, padding=1),
    )
    criterion = SoftDiceLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, enabled=HALF is torch.float16)
    for step in range(STEPS):
        picture, mask = images(BATCH)
        logits = model(picture)
        loss = criterion(logits.to(HALF), mask.to(HALF))
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if step % 10 == 0:
            print(f"step {step} dice loss {loss.item():.4f}")

    with torch.no_grad():
        picture, mask = images(BATCH)
        loss = SoftDiceLoss()(model(picture).double(), mask.double())
    print(f"held-out dice loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
