"""Linear attention over 4096 positions and a Gram penalty on its output."""

import torch
import torch.nn.functional as F
from torch import nn


class LinearAttention(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.q = nn.Linear(width, width)
        self.k = nn.Linear(width, width)
        self.v = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = x.shape[1]
        q = F.elu(self.q(x)) + 1.0
        k = (F.elu(self.k(x)) + 1.0) / n
        v = self.v(x)
        state = torch.einsum("bnd,bne->bde", k, v)
        top = torch.einsum("bnd,bde->bne", q, state)
        bottom = (q.float() * k.float().sum(dim=1, keepdim=True)).sum(dim=-1, keepdim=True)
        y = top.float() / (bottom + 1e-4)
        flat = y + x
        scaled = flat / n**0.5
        gram = torch.bmm(scaled.transpose(1, 2), scaled)
        eye = torch.eye(x.shape[-1], device=x.device, dtype=gram.dtype)
        return (gram - eye).float().square().mean() + flat.float().square().mean()


def build() -> nn.Module:
    torch.manual_seed(18)
    return LinearAttention()
