"""A GAN on a ring of eight Gaussians; generator and discriminator chase each other."""

import math
import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(11)
REF = bool(os.environ.get("REF"))


def ring(size):
    angle = torch.randint(0, 8, (size,)) * (2 * math.pi / 8)
    centre = torch.stack([angle.cos(), angle.sin()], dim=-1) * 2.0
    return centre + 0.1 * torch.randn(size, 2)


class Net(nn.Module):
    def __init__(self, n_in, n_out, act):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(n_in, 64), act(), nn.Linear(64, 64), act(), nn.Linear(64, n_out)
        )

    def forward(self, x):
        return self.layers(x)


def main():
    generator = Net(4, 2, nn.ReLU)
    critic = Net(2, 1, lambda: nn.LeakyReLU(0.2, inplace=True))
    opt_g = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
    opt_d = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.999))
    softplus = nn.functional.softplus
    radii, losses = [], []
    for step in range(150):
        real = ring(128)
        noise = torch.randn(128, 4)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not REF):
            fake = generator(noise)
            score_real = critic(real)
            score_fake = critic(fake.detach())
        loss_d = softplus(-score_real.float()).mean() + softplus(score_fake.float()).mean()
        opt_d.zero_grad()
        loss_d.backward()
        opt_d.step()

        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not REF):
            score = critic(generator(noise))
        loss_g = softplus(-score.float()).mean()
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()
        radii.append(fake.detach().float().norm(dim=-1).mean().item())
        losses.append(loss_d.item())
        if step % 15 == 0:
            print(f"step {step} d {loss_d.item():.4f} g {loss_g.item():.4f} r {radii[-1]:.3f}")
    mean_radius = sum(radii[-75:]) / 75
    mean_loss = sum(losses[-75:]) / 75
    print(f"final discriminator loss {mean_loss:.4f} radius {mean_radius:.4f}")


if __name__ == "__main__":
    main()
