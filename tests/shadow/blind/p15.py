"""Generative adversarial pair on a ring of points, both networks under BF16 autocast."""

import os

import torch
from torch import nn
from torch.nn.functional import softplus

torch.set_num_threads(1)
torch.manual_seed(97)
MIXED = not os.environ.get("REF")


def mlp(*sizes):
    layers = []
    for a, b in zip(sizes, sizes[1:], strict=False):
        layers += [nn.Linear(a, b), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers[:-1])


def ring(size):
    angle = 2 * torch.pi * torch.rand(size)
    return torch.stack([angle.cos(), angle.sin()], dim=1) + 0.05 * torch.randn(size, 2)


generator, critic = mlp(4, 48, 48, 2), mlp(2, 48, 48, 1)
opt_g = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.99))
opt_c = torch.optim.Adam(critic.parameters(), lr=4e-3, betas=(0.5, 0.99))
radii = []
for step in range(150):
    real, noise = ring(128), torch.randn(128, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=MIXED):
        fake = generator(noise)
        on_real, on_fake = critic(real).float(), critic(fake.detach()).float()
    loss_c = softplus(-on_real).mean() + softplus(on_fake).mean()
    opt_c.zero_grad()
    loss_c.backward()
    opt_c.step()

    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=MIXED):
        fake = generator(noise)
        judged = critic(fake).float()
    loss_g = softplus(-judged).mean()
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()
    radii.append(fake.detach().float().norm(dim=1).mean().item())
    if step % 25 == 0:
        print(f"step {step:3d} critic {loss_c.item():.3f} generator {loss_g.item():.3f}")
recent = radii[-50:]
print(f"mean radius of generated points over the last 50 steps {sum(recent) / 50:.3f}")
