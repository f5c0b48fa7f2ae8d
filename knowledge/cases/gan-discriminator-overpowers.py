"""A GAN whose discriminator tells real from generated without error: the saturating generator loss
has no gradient left. With a weaker discriminator and the other loss there is one.
"""

import torch
import torch.nn.functional as F
from torch import nn

Numbers = dict[str, float | bool]


def network(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 32), nn.LeakyReLU(0.2), nn.Linear(32, outputs))


def run(balanced: bool) -> Numbers:
    torch.manual_seed(0)
    generator_network, discriminator = network(8, 2), network(2, 1)
    g_optimizer = torch.optim.Adam(generator_network.parameters(), lr=1e-3, betas=(0.5, 0.999))
    d_lr = 5e-4 if balanced else 2e-2
    d_optimizer = torch.optim.Adam(discriminator.parameters(), lr=d_lr, betas=(0.5, 0.999))
    noise = torch.Generator().manual_seed(0)
    ones, zeros = torch.ones(64, 1), torch.zeros(64, 1)
    d_loss = g_loss = gradient = 0.0
    for _ in range(120):
        real = 4 + 0.5 * torch.randn(64, 2, generator=noise)
        for _ in range(1 if balanced else 3):
            fake = generator_network(torch.randn(64, 8, generator=noise)).detach()
            loss_d = F.binary_cross_entropy_with_logits(discriminator(real), ones)
            loss_d = loss_d + F.binary_cross_entropy_with_logits(discriminator(fake), zeros)
            d_optimizer.zero_grad()
            loss_d.backward()
            d_optimizer.step()
        score = discriminator(generator_network(torch.randn(64, 8, generator=noise)))
        non_saturating = F.binary_cross_entropy_with_logits(score, ones)
        # log(1 - D): the loss of the original game, which is flat where D is sure.
        loss_g = non_saturating if balanced else -F.binary_cross_entropy_with_logits(score, zeros)
        g_optimizer.zero_grad()
        loss_g.backward()
        grads = [p.grad for p in generator_network.parameters() if p.grad is not None]
        gradient = torch.stack([g.norm() for g in grads]).norm().item()
        g_optimizer.step()
        d_loss, g_loss = loss_d.item(), non_saturating.item()
    return {
        "d_loss": d_loss,
        "g_loss_non_saturating": g_loss,
        "generator_gradient_norm": gradient,
        "failed": d_loss < 0.01 and gradient < 1e-3,
    }


def broken() -> Numbers:
    return run(balanced=False)


def fixed() -> Numbers:
    return run(balanced=True)
