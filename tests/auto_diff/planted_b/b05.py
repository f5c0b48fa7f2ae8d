import math

import torch
from torch import nn
import torch.nn.functional as F


class FeatureNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.eps = eps

    def forward(self, x):
        mean = x.mean(dim=-1, keepdim=True)
        second = (x * x).mean(dim=-1, keepdim=True)
        var = second - mean * mean
        inv = torch.rsqrt(var.clamp(min=0) + self.eps)
        return (x - mean) * inv * self.gain + self.bias


def build():
    torch.manual_seed(5)
    return nn.Sequential(FeatureNorm(256), nn.Linear(256, 32))
