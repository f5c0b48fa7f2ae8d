import torch
from torch import nn
from torch.nn import functional


class Mixer(nn.Module):
    def __init__(self, width: int, length: int):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        self.along = nn.Linear(length, length, bias=False)

    def forward(self, x):
        h = self.down(functional.gelu(self.up(self.norm(x))))
        return x + h + self.along(x.transpose(1, 2)).transpose(1, 2)


class PatchModel(nn.Module):
    def __init__(self, width: int = 24, length: int = 32):
        super().__init__()
        self.first = Mixer(width, length)
        self.second = Mixer(width, length)
        self.third = Mixer(width, length)
        self.keep = 0.5
        self.final = nn.LayerNorm(width)
        self.head = nn.Linear(width, 10)

    def thin(self, x):
        faded = x * 1.25
        patches = faded.unfold(1, 3, 8)
        patches.mul_(self.keep)
        return faded

    def forward(self, x):
        x = self.first(x)
        x = self.second(x)
        x = self.thin(x)
        x = self.third(x)
        pooled = self.final(x).mean(1)
        return functional.log_softmax(self.head(pooled), -1)


def build():
    torch.manual_seed(11)
    return PatchModel()
