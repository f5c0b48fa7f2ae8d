"""Triplet-margin embedding trained with gradients of fixed length."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(29)
DTYPE = torch.float64 if os.environ.get("REF") else torch.float32


def rescale_grads(params, length):
    grads = [p.grad for p in params if p.grad is not None]
    norm = torch.sqrt(sum(g.pow(2).sum() for g in grads))
    for g in grads:
        g.mul_(length / norm)  # @fault
    return norm


def triplet(anchor, positive, negative, margin):
    near = (anchor - positive).pow(2).sum(-1)
    far = (anchor - negative).pow(2).sum(-1)
    return (near - far + margin).clamp(min=0).mean()  # @fault


def draw(gen, centres, n=48):
    k = torch.randint(0, len(centres), (n,), generator=gen)
    other = (k + torch.randint(1, len(centres), (n,), generator=gen)) % len(centres)

    def around(i):
        return (centres[i] + 0.45 * torch.randn(n, centres.shape[1], generator=gen)).to(DTYPE)

    return around(k), around(k), around(other)


def main():
    gen = torch.Generator().manual_seed(14)
    centres = torch.randn(6, 12, generator=gen)
    net = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 8)).to(DTYPE)
    opt = torch.optim.SGD(net.parameters(), lr=0.004, momentum=0.5)
    for step in range(120):
        a, p, n = draw(gen, centres)
        loss = triplet(net(a), net(p), net(n), margin=1.0)
        opt.zero_grad()
        loss.backward()
        norm = rescale_grads(list(net.parameters()), 1.0)
        opt.step()
        if step % 10 == 0 or step == 119:
            print(f"step {step} loss {loss.item():.4f} norm {norm.item():.4f}")


main()
