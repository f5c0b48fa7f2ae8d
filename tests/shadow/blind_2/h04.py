"""A small GAN for a ring of points, both networks in BF16 autocast."""

import os

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(24)

AMP = not os.environ.get("REF")
STEPS = 150


def ring(n):
    angle = torch.rand(n) * 6.2832
    radius = 1.0 + 0.05 * torch.randn(n)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)


def mlp(inputs, outputs, width=48):
    return nn.Sequential(
        nn.Linear(inputs, width),
        nn.LeakyReLU(0.2),
        nn.Linear(width, width),
        nn.LeakyReLU(0.2),
        nn.Linear(width, outputs),
    )


def autocast():
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=AMP)


generator, critic = mlp(4, 2), mlp(2, 1)
optimizer_g = torch.optim.Adam(generator.parameters(), lr=5e-3, betas=(0.5, 0.99))
optimizer_c = torch.optim.Adam(critic.parameters(), lr=5e-3, betas=(0.5, 0.99))

for step in range(STEPS):
    real, noise = ring(128), torch.randn(128, 4)
    with autocast():
        fake = generator(noise)
        score_real, score_fake = critic(real), critic(fake.detach())
    loss_c = F.softplus(-score_real.float()).mean() + F.softplus(score_fake.float()).mean()
    optimizer_c.zero_grad()
    loss_c.backward()
    optimizer_c.step()

    with autocast():
        score = critic(fake)
    loss_g = F.softplus(-score.float()).mean()
    optimizer_g.zero_grad()
    loss_g.backward()
    optimizer_g.step()
    if step % 10 == 0:
        print(f"step {step} critic {loss_c.item():.4f} generator {loss_g.item():.4f}")

with torch.no_grad():
    radius = generator(torch.randn(4000, 4)).norm(dim=1)
print(f"generated radius {radius.mean().item():.3f} spread {radius.std().item():.3f}")
