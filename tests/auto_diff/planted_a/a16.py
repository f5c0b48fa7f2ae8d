"""Contrastive loss of two views with a low temperature."""

import torch
import torch.nn.functional as F
from torch import nn


class TwoViews(nn.Module):
    def __init__(self, width: int = 64, out: int = 32) -> None:
        super().__init__()
        self.project = nn.Sequential(
            nn.Linear(width, width, bias=False), nn.Tanh(), nn.Linear(width, out, bias=False)
        )
        self.log_scale = nn.Parameter(torch.tensor(2.3))

    def embed(self, x: torch.Tensor) -> torch.Tensor:
        z = self.project(x).float()
        return z / (z.square().sum(dim=-1, keepdim=True) + 1e-6).sqrt()

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """a, b [n, width]; the pairs stand on the diagonal."""
        za, zb = self.embed(a), self.embed(b)
        logits = (za @ zb.t()).float() * self.log_scale.float().exp()
        peak = logits.max(dim=1, keepdim=True).values.detach()
        total = torch.exp(logits - peak).sum(dim=1)
        log_total = peak[:, 0] + torch.log(total)
        target = torch.arange(len(a), device=a.device)
        return (log_total - logits[target, target]).mean() + F.cross_entropy(logits.t(), target)


def build() -> nn.Module:
    torch.manual_seed(16)
    return TwoViews()
