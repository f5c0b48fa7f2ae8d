"""Standardises sensor channels with the statistics of the batch."""

import torch
from torch import nn


class ChannelStandardise(nn.Module):
    """Normalises [batch, time, channels] over batch and time, then projects."""

    def __init__(self, channels: int, eps: float = 1e-3) -> None:
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.ones(channels))
        self.shift = nn.Parameter(torch.zeros(channels))

    def moments(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        flat = x.reshape(-1, x.shape[-1])
        mean = flat.mean(dim=0)
        square_mean = (flat * flat).mean(dim=0)
        var = (square_mean - mean * mean).clamp(min=0.0)
        return mean, var

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean, var = self.moments(x)
        scale = self.gain * torch.rsqrt(var + self.eps)
        return (x - mean) * scale + self.shift
