import math

import torch
from torch import nn
import torch.nn.functional as F


class Denoiser(nn.Module):
    def __init__(self, dim=512):
        super().__init__()
        self.inner = nn.Linear(dim, 64)
        self.outer = nn.Linear(64, dim)

    def forward(self, x):
        h = torch.tanh(self.inner(x))
        out = self.outer(h)
        loss = F.mse_loss(0.01 * out.float(), 0.01 * x.float())
        return loss


def build():
    torch.manual_seed(10)
    return Denoiser()
