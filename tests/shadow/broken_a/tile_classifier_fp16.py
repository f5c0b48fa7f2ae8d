"""Classifies image tiles; FP16 network, FP32 master weights, RMS normalisation of the features."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(3)

DTYPE = torch.float32 if os.environ.get("REF") else torch.float16
PIXELS, WIDTH, CLASSES = 64, 48, 5


class RootMeanSquareNorm(nn.Module):
    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        power = x.pow(2).mean(dim=-1, keepdim=True)  # @fault
        return self.weight * x * torch.rsqrt(power + self.eps)


class TileNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(PIXELS, WIDTH)
        self.norm = RootMeanSquareNorm(WIDTH)
        self.hidden = nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        return self.out(torch.relu(self.hidden(self.norm(self.stem(x)))))


PATTERNS = torch.rand(CLASSES, PIXELS)


def tiles(size=48):
    """Counts of a 12-bit sensor; part of the tiles are taken in bright light."""
    label = torch.randint(0, CLASSES, (size,))
    light = torch.where(torch.rand(size, 1) < 0.6, 4000.0, 500.0)
    level = light * (0.35 + 0.65 * PATTERNS[label]) + 0.03 * light * torch.randn(size, PIXELS)
    return level.clamp(0, 4095).round().to(DTYPE), label


def main():
    model = TileNet().to(DTYPE)
    masters = [p.detach().float().clone().requires_grad_() for p in model.parameters()]
    optimizer = torch.optim.Adam(masters, lr=3e-3)
    for step in range(100):
        x, label = tiles()
        logits = model(x)
        loss = nn.functional.cross_entropy(logits.float(), label)
        model.zero_grad()
        loss.backward()
        for master, p in zip(masters, model.parameters(), strict=True):
            master.grad = p.grad.float()
        optimizer.step()
        with torch.no_grad():
            for master, p in zip(masters, model.parameters(), strict=True):
                p.copy_(master)
        if step % 20 == 0:
            print(f"step {step:3d} loss {loss.item():.4f}")
    with torch.no_grad():
        x, label = tiles(512)
        accuracy = (model(x).argmax(1) == label).float().mean().item()
        dark = (model.norm(model.stem(x)) == 0).all(dim=1).float().mean().item()
    print(f"final loss {loss.item():.4f} accuracy {accuracy:.3f} zero features {dark:.3f}")


if __name__ == "__main__":
    main()
