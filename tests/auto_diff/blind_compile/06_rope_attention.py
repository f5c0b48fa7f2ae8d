import math

import torch
from torch import nn


def rotate(x, cos, sin):
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


class RopeAttention(nn.Module):
    def __init__(self, width: int = 64, heads: int = 4, length: int = 24):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.norm = nn.LayerNorm(width)
        half = width // heads // 2
        rate = 10000.0 ** (-torch.arange(half) / half)
        angle = torch.arange(length)[:, None] * rate
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())
        self.register_buffer("hidden", torch.ones(length, length, dtype=torch.bool).triu(1))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = rotate(q, self.cos, self.sin), rotate(k, self.cos, self.sin)
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(self.hidden, float("-inf"))
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width)
        return x + self.out(mixed)


def build():
    torch.manual_seed(6)
    return RopeAttention()
