import torch
from torch import nn
from torch.nn import functional


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(64, 128)
        self.b = nn.Linear(128, 128)
        self.c = nn.Linear(128, 64)
        self.norm = nn.LayerNorm(64)
        self.out = nn.Linear(64, 10)

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            h = functional.gelu(self.a(x))
            h = h + functional.silu(self.b(h))
            h = self.norm(self.c(h) + x)
            scores = self.out(h)
        return torch.log_softmax(scores.float(), -1)


def build():
    torch.manual_seed(14)
    return Net()
