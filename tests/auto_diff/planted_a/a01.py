"""A decoder block's attention, with the padding mask added to the scores."""

import math

import torch
from torch import nn


class CausalSelfAttention(nn.Module):
    """Multi-head attention over [batch, time, width]; keep is 1 for real tokens."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        b, t, w = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(w // self.heads)
        causal = torch.ones(t, t, device=x.device).tril()
        allowed = causal[None, None] * keep[:, None, None, :]
        bias = (1.0 - allowed.to(scores.dtype)) * -1e9
        weights = torch.softmax(scores + bias, dim=-1)
        mixed = (weights.to(v.dtype) @ v).transpose(1, 2).reshape(b, t, w)
        return self.out(mixed) * keep[:, :, None]


class Block(nn.Module):
    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = CausalSelfAttention(width, heads)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm(x), keep)
        return x + self.mlp(x)


def build() -> nn.Module:
    torch.manual_seed(0)
    return Block()
