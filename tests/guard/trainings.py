"""Trainings that fail under autocast, each for one reason, and some that do not. Written before
the guard was first run; "batches that do not fit" had to be written anew, because it failed in FP32
too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from statistics import mean
from typing import Any

import torch
from mpnanny import PrecisionGuard
from torch import nn

STEPS = 200


class Net(nn.Module):
    """A classifier around one part of interest."""

    def __init__(self, part: nn.Module, width: int = 48) -> None:
        super().__init__()
        self.enter = nn.Linear(24, width)
        self.part = part
        self.middle = nn.Linear(width, width)
        self.leave = nn.Linear(width, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.part(torch.relu(self.enter(x)))
        return self.leave(torch.relu(self.middle(hidden)))


class SquareNorm(nn.Module):
    """A root mean square norm by hand, of values above 256."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        large = x * 700
        return large / (large.pow(2).mean(-1, keepdim=True) + 1.0).sqrt()


class RawVariance(nn.Module):
    """E[x²] - E[x]² about a large mean: negative in BF16, and its root NaN."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shifted = x + 100
        mean = shifted.mean(-1, keepdim=True)
        variance = (shifted * shifted).mean(-1, keepdim=True) - mean * mean
        return (shifted - mean) / variance.sqrt()


class SoftmaxByHand(nn.Module):
    """exp() without the maximum taken away."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = (x * 8).exp()
        return x + x * (weights / weights.sum(-1, keepdim=True))


class UnscaledAttention(nn.Module):
    """Products of queries and keys without 1/sqrt(d), of large values."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key = self.query(x) * 250, self.key(x) * 250
        scores = query @ key.transpose(-1, -2)
        return x + scores.float().mul(1e-5).softmax(-1).to(x.dtype) @ x


class GrowingGain(nn.Module):
    """A learned gain that is driven up until a product leaves FP16's range."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.tensor(6.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        high = x * self.gain.exp().to(x.dtype)
        return torch.tanh(high * high / (1 + high)) * 2


class Saturating(nn.Module):
    """x² / (1 + x²) by hand: NaN where x² leaves the range, with running statistics behind it."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        square = x * x
        return self.norm(square / (1 + square))


class Entropy(nn.Module):
    """p·log p by hand: where p is rounded to zero, the logarithm is -Inf and the product NaN."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        powers = (x * 12 - (x * 12).amax(-1, keepdim=True)).exp()
        share = powers / powers.sum(-1, keepdim=True)
        return x - share * share.log()


class Distance(nn.Module):
    """The root of a sum of squares that are rounded to zero: its derivative there is Inf."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.places = nn.Parameter(torch.randn(16, width) * 0.5)
        self.leave = nn.Linear(16, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        apart = (x.unsqueeze(-2) - self.places.to(x.dtype)) * 1e-5
        root = (apart * apart).sum(-1).sqrt()
        return x + self.leave(root * 1e5)


class SoftplusByHand(nn.Module):
    """log(1 + exp(x)) without the case of large x."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log(1 + torch.exp(x * 6)) / 6


class Normed(nn.Module):
    """A healthy part."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.wide = nn.Linear(width, width)
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.wide(x))


@dataclass(frozen=True)
class Training:
    """`outliers`: a batch in so many has values far outside of the format; 0: none."""

    make: Callable[[], nn.Module]
    dtype: torch.dtype
    scaler: bool
    outliers: int = 0

    def model(self) -> nn.Module:
        torch.manual_seed(5)
        return Net(self.make())

    def batch(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        draw = torch.Generator().manual_seed(step)
        rule = torch.randn(24, 6, generator=torch.Generator().manual_seed(77))
        x = torch.randn(64, 24, generator=draw)
        target = (x @ rule).argmax(-1)
        if self.outliers and step % self.outliers == self.outliers - 1:
            x = x * 1_000
        return x, target


FAILING = {
    "squares overflow": Training(SquareNorm, torch.float16, False),
    "squares overflow, with a scaler": Training(SquareNorm, torch.float16, True),
    "a negative variance": Training(RawVariance, torch.bfloat16, False),
    "softmax by hand": Training(SoftmaxByHand, torch.float16, True),
    "attention that is not scaled": Training(UnscaledAttention, torch.float16, False),
    "a gain that grows": Training(GrowingGain, torch.float16, True),
    "batches that do not fit": Training(Saturating, torch.float16, True, outliers=40),
    # Written after the guard stood, before it was first run on them.
    "the logarithm of what became zero": Training(Entropy, torch.float16, True),
    "the root of squares that became zero": Training(Distance, torch.float16, False),
    "softplus by hand": Training(SoftplusByHand, torch.float16, True),
}
HEALTHY = {
    "bf16": Training(Normed, torch.bfloat16, False),
    "fp16": Training(Normed, torch.float16, True),
    "fp16 attention": Training(lambda: nn.Linear(48, 48), torch.float16, True),
}


def train(
    of: Training,
    low: bool,
    guarded: bool,
    moved: float = 0.0,
    without: Collection[int] = frozenset(),
    device: str = "cpu",
    steps: int = STEPS,
    **options: Any,
) -> tuple[list[float], nn.Module, Any, set[int]]:
    """Losses, the model, the guard if there is one, and the steps whose update was left out.
    `moved`: share by which the first weights are moved, to see what rounding alone may do;
    `without`: steps to leave out.
    """
    model = of.model().to(device)
    with torch.no_grad():
        for each in model.parameters():
            each.mul_(1 + moved)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler(device, enabled=low and of.scaler)
    guard = PrecisionGuard(model, optimizer, scaler, quiet=True, **options) if guarded else None
    losses, left_out = [], set()
    updates = []
    optimizer.register_step_post_hook(lambda *_: updates.append(step))
    for step in range(steps):
        if step in without:
            continue
        x, target = (each.to(device) for each in of.batch(step))
        with guard.step() if guard else torch.enable_grad():
            optimizer.zero_grad()
            with torch.autocast(device, of.dtype, enabled=low):
                output = model(x)
            loss = nn.functional.cross_entropy(output.float(), target)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        losses.append(loss.item())
        if not updates or updates[-1] != step:
            left_out.add(step)
    return losses, model, guard, left_out


def held_out(model: nn.Module, of: Training, device: str = "cpu") -> float:
    """Mean loss in FP32 over batches that no training saw, none of them an outlier."""
    plain = replace(of, outliers=0)
    model.eval()
    with torch.no_grad():
        losses = []
        for step in range(10_000, 10_016):
            x, target = (each.to(device) for each in plain.batch(step))
            losses.append(nn.functional.cross_entropy(model(x), target).item())
    return mean(losses)
