"""Models with labelled batches, as users have them: one that needs an FP32 island and one that does
not; and code that cannot be tried.
"""

from __future__ import annotations

import torch
from torch import nn


class RawNorm(nn.Module):
    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        square = (x * x).mean(-1, keepdim=True)
        return (x - mean) / torch.sqrt((square - mean * mean).abs() + 1e-5)


class Classifier(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.enter = nn.Linear(32, 64)
        self.norm = norm
        self.middle = nn.Linear(64, 64)
        self.leave = nn.Linear(64, 10)

    def forward(self, x, target):
        hidden = self.norm(self.enter(x) + 30)
        output = self.leave(torch.relu(self.middle(hidden)))
        return nn.functional.cross_entropy(output, target)


def sensitive():
    return Classifier(RawNorm())


def healthy():
    return Classifier(nn.LayerNorm(64))


def batches(step):
    draw = torch.Generator().manual_seed(step)
    x = torch.randn(32, 32, generator=draw)
    rule = torch.randn(32, 10, generator=torch.Generator().manual_seed(99))
    return x, (x @ rule).argmax(-1)


def not_a_model():
    return lambda x: x + 1


class Stops(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(4, 4)

    def forward(self, x):
        raise ValueError("this model does not run")


def stops():
    return Stops()
