import math

import torch
from torch import nn
from torch.nn import functional


class Grouping(nn.Module):
    """A few learned slots compete for the elements of a set."""

    def __init__(self, width: int, heads: int, slots: int):
        super().__init__()
        self.heads = heads
        self.start = nn.Parameter(torch.randn(slots, width))
        self.norm = nn.LayerNorm(width)
        self.to_q = nn.Linear(width, width, bias=False)
        self.to_k = nn.Linear(width, width, bias=False)
        self.to_v = nn.Linear(width, width, bias=False)
        self.merge = nn.Linear(width, width)

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x):
        x = self.norm(x)
        slots = self.start.expand(x.shape[0], -1, -1)
        q, k, v = self.split(self.to_q(slots)), self.split(self.to_k(x)), self.split(self.to_v(x))
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
        share = torch.softmax(scores, dim=-2)
        gathered = torch.matmul(share, v)
        return slots + self.merge(gathered.transpose(1, 2).flatten(2))


class SetModel(nn.Module):
    def __init__(self, width: int = 32):
        super().__init__()
        self.embed = nn.Linear(10, width)
        self.group = Grouping(width, heads=4, slots=6)
        self.read = nn.Linear(width, 3)

    def forward(self, x):
        slots = self.group(functional.gelu(self.embed(x)))
        return self.read(functional.normalize(slots, dim=-1))


def build():
    torch.manual_seed(3)
    return SetModel().requires_grad_(False)
