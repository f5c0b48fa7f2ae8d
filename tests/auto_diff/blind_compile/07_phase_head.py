import math

import torch
from torch import nn
from torch.nn import functional


class PhaseHead(nn.Module):
    def __init__(self, width: int = 40, cells: int = 16):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(width, 64), nn.SiLU(), nn.Linear(64, 64), nn.LayerNorm(64))
        self.east = nn.ModuleList(nn.Linear(64, cells) for _ in range(2))
        self.north = nn.ModuleList(nn.Linear(64, cells) for _ in range(2))
        self.reach = nn.Linear(cells, cells)
        self.out = nn.Linear(2 * cells, 8)

    def steps(self, layers, h):
        total = torch.zeros(h.shape[0], layers[0].out_features, dtype=h.dtype)
        for layer in layers:
            total = total + torch.trunc(layer(h) * 1.5)
        return total

    def forward(self, x):
        h = self.trunk(x)
        dx = self.steps(self.east, h)
        dy = self.steps(self.north, h)
        bearing = torch.atan2(dy, dx) / math.pi
        length = torch.sqrt(dx * dx + dy * dy + 1.0)
        feature = torch.cat((bearing, torch.tanh(self.reach(length))), -1)
        return functional.softplus(self.out(feature))


def build():
    torch.manual_seed(17)
    return PhaseHead()
