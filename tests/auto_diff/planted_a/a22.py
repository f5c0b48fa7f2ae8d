"""A small convolutional variational autoencoder and its bound."""

import torch
import torch.nn.functional as F
from torch import nn


class SmallVae(nn.Module):
    def __init__(self, width: int = 16, latent: int = 8) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, width, 4, stride=4)
        self.norm = nn.GroupNorm(4, width)
        self.code = nn.Conv2d(width, 2 * latent, 1)
        self.up = nn.ConvTranspose2d(latent, 3, 4, stride=4)

    def forward(self, image: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """image [b, 3, 32, 32], noise [b, 8, 8, 8]; the negative bound per pixel."""
        h = F.gelu(self.norm(self.down(image)))
        mean, log_var = self.code(h).float().chunk(2, dim=1)
        log_var = log_var.clamp(-8.0, 8.0)
        z = mean + torch.exp(0.5 * log_var) * noise
        kl = 0.5 * (mean.square() + torch.exp(log_var) - 1.0 - log_var).sum(dim=(1, 2, 3))
        fit = (self.up(z).float() - image).square().sum(dim=(1, 2, 3))
        pixels = image[0].numel()
        return ((fit + kl) / pixels).mean()


def build() -> nn.Module:
    torch.manual_seed(22)
    return SmallVae()
