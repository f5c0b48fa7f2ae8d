import torch
from torch import nn
from torch.nn import functional


class Stage(nn.Module):
    def __init__(self, inside: int, outside: int):
        super().__init__()
        self.conv = nn.Conv2d(inside, outside, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(outside)
        self.short = nn.Conv2d(inside, outside, 1, bias=False)

    def forward(self, x):
        return functional.silu(self.norm(self.conv(x)) + self.short(x))


class ConvStack(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = Stage(3, 12)
        self.two = Stage(12, 24)
        self.three = Stage(24, 24)
        self.head = nn.Linear(24, 10)

    def forward(self, x):
        x = functional.avg_pool2d(self.one(x), 2)
        x = functional.avg_pool2d(self.two(x), 2)
        x = self.three(x).mean((2, 3))
        return self.head(x)


def build():
    torch.manual_seed(4)
    return ConvStack().train()
