import math

import torch
from torch import nn
import torch.nn.functional as F


class PaddedEmbedding(nn.Module):
    def __init__(self, vocab=100, length=1200, dim=32):
        super().__init__()
        self.tokens = nn.Embedding(vocab, dim)
        self.positions = nn.Embedding(length, dim)

    def forward(self, ids, mask):
        real = mask.to(self.tokens.weight.dtype)
        order = torch.cumsum(real, dim=-1)
        index = (order - 1).clamp(min=0).long()
        x = self.tokens(ids) + self.positions(index)
        return x * real.unsqueeze(-1)


def build():
    torch.manual_seed(9)
    return PaddedEmbedding()
