"""Siamese network that tells whether two signatures are of one person; FP16 with a grad scaler."""

import os

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(1)

AUTOCAST = not os.environ.get("REF")
PEOPLE, SAMPLES, WIDTH = 20, 6, 48


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(WIDTH, 64), nn.ReLU(), nn.Linear(64, 24))

    def forward(self, x):
        return self.layers(x)


def signatures():
    person = torch.randn(PEOPLE, 1, WIDTH)
    return person + 0.8 * torch.randn(PEOPLE, SAMPLES, WIDTH)


def pairs(generator, size=32):
    first = torch.randint(0, PEOPLE, (size,), generator=generator)
    other = torch.randint(0, PEOPLE, (size,), generator=generator)
    same = torch.rand(size, generator=generator) < 0.5
    second = torch.where(same, first, other)
    left = torch.randint(0, SAMPLES, (size,), generator=generator)
    right = torch.randint(0, SAMPLES, (size,), generator=generator)
    return (first, left), (second, right), (first == second).float()


def distance(a, b):
    return torch.sqrt((a - b).pow(2).sum(dim=1))  # @fault


def main():
    generator = torch.Generator().manual_seed(2)
    images = signatures()
    model = Encoder()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    start = [p.detach().clone() for p in model.parameters()]
    for step in range(60):
        first, second, same = pairs(generator)
        with torch.autocast("cpu", dtype=torch.float16, enabled=AUTOCAST):
            a, b = model(torch.cat([images[first], images[second]])).chunk(2)
        gap = distance(a.float(), b.float())
        loss = (same * gap + (1 - same) * F.relu(2.0 - gap)).mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        scaler.step(optimizer)
        scaler.update()
        if step % 10 == 0:
            print(f"step {step:3d} loss {loss.item():.4f} scale {scaler.get_scale():g}")
    moved = sum((p - q).abs().sum().item() for p, q in zip(model.parameters(), start, strict=True))
    print(f"final loss {loss.item():.4f} scale {scaler.get_scale():g} moved {moved:.4f}")


if __name__ == "__main__":
    main()
