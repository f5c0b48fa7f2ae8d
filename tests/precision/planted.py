"""Modules that lose precision in 16 bits, put behind a layer of a healthy model: the label is the
name of the place. Written before the search for islands was first run on them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn


class RawMoments(nn.Module):
    """A variance as E[x²] - E[x]² about a large mean."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shifted = x + 40
        mean = shifted.mean(-1, keepdim=True)
        variance = (shifted * shifted).mean(-1, keepdim=True) - mean * mean
        return (shifted - mean) / (variance.abs() + 1e-3).sqrt()


class LargeOffset(nn.Module):
    """Adds and takes away a number beside which x is small."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x + 3000.0) - 3000.0


class SquaresOverflow(nn.Module):
    """A norm of values whose squares do not fit FP16."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        large = x * 1000
        return large / ((large * large).mean(-1, keepdim=True) + 1.0).sqrt()


class SquaresVanish(nn.Module):
    """Squares below FP16's smallest number."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        small = x * 1e-5
        return x + small / ((small * small).mean(-1, keepdim=True) + 1e-12).sqrt()


class RunningSum(nn.Module):
    """Sums one by one; each part is small beside the total."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = torch.full_like(x, 600.0)
        for _ in range(24):
            total = total + x.sigmoid()
        return x + (total - 612.0)


class OneMinus(nn.Module):
    """The log of one minus a probability near one."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left = 1 - (x + 7.0).sigmoid()
        return x + (left + 1e-8).log()


class NaivePhase(nn.Module):
    """Angles of hundreds of turns."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        angle = x * 25.0 + 1000.0
        return x + angle.sin()


class ProductOfMany(nn.Module):
    """Small factors multiplied, the logarithm taken afterwards."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = torch.ones_like(x)
        for _ in range(10):
            made = made * (x.tanh() * 0.02 + 0.06)
        return x + made.log() * 0.1


KINDS: dict[str, Callable[[], nn.Module]] = {
    each.__name__: each
    for each in (
        RawMoments,
        LargeOffset,
        SquaresOverflow,
        SquaresVanish,
        RunningSum,
        OneMinus,
        NaivePhase,
        ProductOfMany,
    )
}


@dataclass(frozen=True)
class Planted:
    """`place`: the name of the planted module; `way`: where it is measured."""

    family: str
    kind: str
    behind: str
    way: str

    @property
    def place(self) -> str:
        return f"{self.behind}.1"

    def plant(self, model: nn.Module) -> nn.Module:
        outer, _, name = self.behind.rpartition(".")
        holder = model.get_submodule(outer)
        setattr(holder, name, nn.Sequential(getattr(holder, name), KINDS[self.kind]()))
        return model


def draw(families: dict[str, tuple[Callable[[], nn.Module], list[str]]]) -> list[Planted]:
    """Two places in each family, kinds and ways in turn: drawn once, from a fixed seed."""
    dice = random.Random(19)
    made = []
    kinds, ways = list(KINDS), ["fp16-autocast", "bf16-autocast", "bf16-weights"]
    for family, (make, _) in families.items():
        places = [
            name
            for name, module in make().named_modules()
            if type(module) in (nn.Linear, nn.Conv2d, nn.Conv1d, nn.LayerNorm, nn.BatchNorm2d)
            and name.rpartition(".")[2] not in ("head", "out", "tail")
        ]
        for behind in dice.sample(places, min(2, len(places))):
            kind = kinds[len(made) % len(kinds)]
            way = ways[len(made) % len(ways)]
            if kind in ("SquaresOverflow", "SquaresVanish", "ProductOfMany"):
                way = "fp16-autocast"  # only FP16 has not the range
            made.append(Planted(family, kind, behind, way))
    return made
