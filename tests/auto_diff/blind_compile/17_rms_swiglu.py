import torch
from torch import nn
from torch.nn import functional


class RmsNorm(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        if torch.compiler.is_compiling():
            return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight
        return x / torch.sqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


class Feed(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.norm = RmsNorm(width)
        self.both = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x):
        gate, up = self.both(self.norm(x)).chunk(2, -1)
        return x + self.down(functional.silu(gate) * up)


class Stack(nn.Module):
    def __init__(self, width: int = 48):
        super().__init__()
        self.feeds = nn.ModuleList(Feed(width) for _ in range(4))
        self.last = RmsNorm(width)

    def forward(self, x):
        for feed in self.feeds:
            x = feed(x)
        return self.last(x)


def build():
    torch.manual_seed(18)
    return Stack()
