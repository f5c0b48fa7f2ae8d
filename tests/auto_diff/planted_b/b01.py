import math

import torch
from torch import nn
import torch.nn.functional as F


class RotaryScores(nn.Module):
    def __init__(self, dim=64, base=10000.0):
        super().__init__()
        self.dim = dim
        self.base = base
        self.scale = dim**-0.5

    def tables(self, x):
        t = torch.arange(x.shape[-2], device=x.device).to(x.dtype)
        exponent = torch.arange(0, self.dim, 2, device=x.device).float() / self.dim
        angles = t.float()[:, None] * (self.base**-exponent)[None, :]
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)

    def rotate(self, x, cos, sin):
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)

    def forward(self, q, k):
        cos, sin = self.tables(q)
        q = self.rotate(q, cos, sin)
        k = self.rotate(k, cos, sin)
        return torch.softmax(q @ k.transpose(-1, -2) * self.scale, dim=-1)
