"""Momentum with orthogonalised updates; the Newton-Schulz iteration runs in BF16."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(109)
DTYPE = torch.float32 if os.environ.get("REF") else torch.bfloat16
MICRO = 3


def orthogonalise(g, steps=5):
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.to(DTYPE)
    tall = x.shape[0] > x.shape[1]
    if tall:
        x = x.t()
    x = x / (x.norm() + 1e-7)
    for _ in range(steps):
        gram = x @ x.t()
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.t() if tall else x).float()


class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr, momentum=0.9):
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                buf = self.state[p].setdefault("momentum", torch.zeros_like(p))
                buf.mul_(group["momentum"]).add_(p.grad)
                direction = orthogonalise(p.grad.add(buf, alpha=group["momentum"]))
                p.add_(direction, alpha=-group["lr"] * max(1, p.shape[0] / p.shape[1]) ** 0.5)


model = nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 5))
matrices = [model[0].weight, model[2].weight]
others = [p for p in model.parameters() if not any(p is m for m in matrices)]
muon = Muon(matrices, lr=0.02)
adam = torch.optim.Adam(others, lr=3e-3)
teacher = nn.Sequential(nn.Linear(20, 40), nn.Tanh(), nn.Linear(40, 5)).requires_grad_(False)


def batch(n=64):
    x = torch.randn(n, 20)
    return x, (4 * teacher(x)).argmax(-1)


last = []
for step in range(120):
    for opt in (muon, adam):
        opt.zero_grad()
        for group in opt.param_groups:
            group["lr"] = (0.02 if opt is muon else 3e-3) * (1 - step / 120)
    total = 0.0
    for _ in range(MICRO):
        x, y = batch()
        loss = nn.functional.cross_entropy(model(x), y) / MICRO
        loss.backward()
        total += loss.item()
    muon.step()
    adam.step()
    last.append(total)
    if step % 20 == 0:
        print(f"step {step} loss {total:.4f}")
print(f"final loss {sum(last[-10:]) / 10:.4f}")
