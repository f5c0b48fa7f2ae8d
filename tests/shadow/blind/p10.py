"""Differentially private style training: per-sample gradients are clipped, summed and noised."""

import os

import torch
from torch.func import functional_call, grad, vmap

torch.set_num_threads(1)
torch.manual_seed(41)
HALF = torch.float32 if os.environ.get("REF") else torch.float16

BATCH, CLIP, NOISE, LOSS_SCALE, LR = 32, 1.0, 0.02, 512.0, 0.5

net = torch.nn.Sequential(torch.nn.Linear(8, 24), torch.nn.Tanh(), torch.nn.Linear(24, 1))
master = {name: p.detach().clone() for name, p in net.named_parameters()}
direction = torch.randn(8)


def sample_loss(params, x, y):
    out = functional_call(net, params, (x.unsqueeze(0),))
    return LOSS_SCALE * (out.squeeze() - y).pow(2)


per_sample = vmap(grad(sample_loss), in_dims=(None, 0, 0))


def private_gradient(params, x, y):
    grads = per_sample(params, x, y)
    squares = [g.flatten(1).pow(2).sum(dim=1) for g in grads.values()]  # @fault
    norms = torch.stack(squares).sum(dim=0).sqrt()
    factor = (CLIP * LOSS_SCALE / norms).clamp(max=1.0)
    total = {}
    for name, g in grads.items():
        clipped = torch.einsum("b,b...->...", factor, g).float() / LOSS_SCALE
        total[name] = (clipped + NOISE * torch.randn_like(clipped)) / BATCH
    return total


def draw(size):
    x = torch.randn(size, 8)
    return x, 1.5 * torch.tanh(x @ direction / 2) + 0.8


for step in range(120):
    x, y = draw(BATCH)
    low = {name: p.to(HALF) for name, p in master.items()}
    gradient = private_gradient(low, x.to(HALF), y.to(HALF))
    for name, p in master.items():
        p.sub_(LR * gradient[name])
    if step % 20 == 0:
        out = functional_call(net, master, (x,)).squeeze(1)
        print(f"step {step:3d} mse {(out - y).pow(2).mean().item():.4f}")

x, y = draw(4000)
out = functional_call(net, master, (x,)).squeeze(1)
print(f"mse on fresh data {(out - y).pow(2).mean().item():.4f}")
