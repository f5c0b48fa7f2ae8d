import torch
from torch import nn
from torch.nn import functional


class SquaredRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0).square()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x.clamp(min=0) * grad


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(48, 96)
        self.b = nn.Linear(96, 96)
        self.c = nn.Linear(96, 64)
        self.out = nn.Linear(64, 12)

    def forward(self, x):
        x = functional.gelu(self.a(x))
        x = x + SquaredRelu.apply(self.b(x)) * 0.1
        x = functional.silu(self.c(x))
        return self.out(functional.normalize(x, dim=-1) * 8.0)


def build():
    torch.manual_seed(2)
    return Classifier()
