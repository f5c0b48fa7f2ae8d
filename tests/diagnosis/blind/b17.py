"""Wasserstein critic and generator on a shifted two-dimensional mixture."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(4)
if os.environ.get("REF"):
    torch.set_default_dtype(torch.float64)

CENTRES = torch.tensor([[0.5, 0.3], [0.7, -0.2], [0.3, 0.6]])
CLIP, BATCH, ITERATIONS = 0.1, 128, 100


def real_batch():
    k = torch.randint(0, len(CENTRES), (BATCH,))
    return CENTRES[k] + 0.05 * torch.randn(BATCH, 2)


def mlp(i, o, h=32):
    return nn.Sequential(
        nn.Linear(i, h), nn.LeakyReLU(0.2), nn.Linear(h, h), nn.LeakyReLU(0.2), nn.Linear(h, o)
    )


generator = nn.Sequential(mlp(4, 2), nn.Tanh())
critic = mlp(2, 1)
opt_g = torch.optim.RMSprop(generator.parameters(), lr=1e-3)
opt_c = torch.optim.RMSprop(critic.parameters(), lr=2e-3)

for it in range(ITERATIONS):
    opt_g.zero_grad()
    opt_c.zero_grad()  # @fault

    real = real_batch()
    fake = generator(torch.randn(BATCH, 4))
    loss_g = -critic(fake).mean()
    loss_g.backward()  # @fault
    opt_g.step()

    loss_c = critic(fake.detach()).mean() - critic(real).mean()
    loss_c.backward()
    opt_c.step()  # @fault
    with torch.no_grad():
        for p in critic.parameters():
            p.clamp_(-CLIP, CLIP)

    if it % 10 == 0 or it == ITERATIONS - 1:
        with torch.no_grad():
            gap = (generator(torch.randn(2000, 4)).mean(0) - CENTRES.mean(0)).norm()
        print(f"it {it} critic {loss_c.item():.4f} generator {loss_g.item():.4f} gap {gap:.4f}")
