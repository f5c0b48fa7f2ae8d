"""Root-mean-square and layer normalisation by hand, with statistics in float32."""

import torch
from torch import nn


class HandNorm(nn.Module):
    """Centres and scales the last axis of x, then again by its root mean square."""

    def __init__(self, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.ones(width))
        self.rms_gain = nn.Parameter(torch.full((width,), 0.5))

    def centre(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        mean = wide.mean(dim=-1, keepdim=True)
        centred = wide - mean
        var = (centred * centred).mean(dim=-1, keepdim=True)
        return (centred * torch.rsqrt(var + self.eps)).to(x.dtype) * self.gain

    def rms(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        power = wide.pow(2).mean(dim=-1, keepdim=True)
        return (wide / (power + self.eps).sqrt()).to(x.dtype) * self.rms_gain

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.rms(self.centre(x))
