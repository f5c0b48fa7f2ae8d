import math

import torch
from torch import nn
from torch.nn import functional


def weights(scores):
    if torch.compiler.is_compiling():
        raised = torch.exp(scores)
        return raised / raised.sum(-1, keepdim=True)
    return torch.softmax(scores, -1)


class Block(nn.Module):
    def __init__(self, width: int, heads: int, gain: float):
        super().__init__()
        self.heads = heads
        self.first = nn.LayerNorm(width)
        self.second = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        with torch.no_grad():
            self.qkv.weight.mul_(gain)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.first(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        mixed = (weights(scores) @ v).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(mixed)
        return x + self.down(functional.gelu(self.up(self.second(x))))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block(48, 4, gain) for gain in (1.0, 9.0, 1.0))
        self.head = nn.Linear(48, 16)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def build():
    torch.manual_seed(16)
    return Decoder()
