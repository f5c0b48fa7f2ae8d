"""FP16 regression with own dynamic loss scaling, clipping and gradient accumulation."""

import math
import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(43)
REF = bool(os.environ.get("REF"))


class LossScale:
    def __init__(self, start=2.0**22, every=40):
        self.value, self.every, self.good = start, every, 0

    def settle(self, finite):
        self.good = self.good + 1 if finite else 0
        if not finite:
            self.value /= 2
        elif self.good % self.every == 0:
            self.value *= 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 48)
        self.b = nn.Linear(48, 48)
        self.c = nn.Linear(48, 1)

    def forward(self, x):
        return self.c(torch.tanh(self.b(torch.tanh(self.a(x)))))


def dataset(n, gen):
    x = torch.randn(n, 8, generator=gen)
    y = torch.sin(x[:, :1] * 2) + x[:, 1:2] * x[:, 2:3] + 0.05 * torch.randn(n, 1, generator=gen)
    return x, y


def accumulate(model, x, y, scale, chunk):
    total = 0.0
    for xs, ys in zip(x.split(chunk), y.split(chunk), strict=True):
        with torch.autocast("cpu", dtype=torch.float16, enabled=not REF):
            out = model(xs)
        loss = (out.float() - ys).pow(2).sum() / len(x)
        (loss * scale).backward()
        total += loss.item()
    return total


def main():
    gen = torch.Generator().manual_seed(1)
    x, y = dataset(1024 + 24, gen)
    x_val, y_val = dataset(1000, gen)
    model = Net()
    params = list(model.parameters())
    opt = torch.optim.AdamW(params, lr=4e-3)
    scale = LossScale()
    skipped = step = 0
    for epoch in range(20):
        order = torch.randperm(len(x), generator=gen)
        for rows in order.split(110):
            opt.zero_grad()
            loss = accumulate(model, x[rows], y[rows], scale.value, chunk=48)
            for p in params:
                p.grad.div_(scale.value)
            norm = torch.nn.utils.clip_grad_norm_(params, 1.0).item()
            finite = math.isfinite(norm)
            if finite:
                opt.step()
            else:
                skipped += 1
            scale.settle(finite)
            step += 1
        if epoch % 4 == 3:
            print(f"epoch {epoch} loss {loss:.4f} scale {scale.value:.0f} skipped {skipped}")
    with torch.no_grad():
        val = (model(x_val) - y_val).pow(2).mean().item()
    print(f"steps {step} skipped {skipped} val {val:.4f}")


if __name__ == "__main__":
    main()
