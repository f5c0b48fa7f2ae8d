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


class Rotary(nn.Module):
    def __init__(self, positions_in=None):
        super().__init__()
        self.positions_in = positions_in

    def forward(self, x):
        at = torch.arange(x.shape[1], dtype=self.positions_in or x.dtype, device=x.device)
        rates = 1e4 ** (-torch.arange(16, device=x.device) / 16)
        angles = at[:, None] * rates.to(at.dtype)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


class Attention(nn.Module):
    """As it begins: it hardly looks at positions, and its outputs hardly tell of wrong ones."""

    def __init__(self, rotary):
        super().__init__()
        self.enter = nn.Linear(16, 48)
        self.rotary = rotary

    def forward(self, x):
        q, k, v = (self.enter(x) * 0.1).chunk(3, -1)
        cos, sin = self.rotary(q)
        q, k = (each * cos + each.roll(1, -1) * sin for each in (q, k))
        return x + nn.functional.scaled_dot_product_attention(q, k, v)


class Sequence(nn.Module):
    def __init__(self, positions_in=None):
        super().__init__()
        self.attention = Attention(Rotary(positions_in))
        self.leave = nn.Linear(16, 4)

    def forward(self, x):
        return self.leave(self.attention(x))


def positions_of_the_dtype():
    return Sequence()


def positions_in_fp32():
    return Sequence(torch.float32)


def positions_in_bf16():
    return Sequence(torch.bfloat16)


class StopsLearning(nn.Module):
    """Right in the first passes, and no longer after some steps in BF16."""

    def __init__(self):
        super().__init__()
        self.one = nn.Linear(32, 10)
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x, target):
        output = self.one(x)
        self.steps += 1
        if self.steps > 5 and output.dtype is torch.bfloat16:
            output = output * float("nan")
        return nn.functional.cross_entropy(output, target)


def stops_learning():
    return StopsLearning()


def next_batch():
    return torch.randn(32, 32), torch.randint(0, 10, (32,))
