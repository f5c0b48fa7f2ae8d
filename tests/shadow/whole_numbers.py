"""A training whose whole numbers are written out of floating-point values (features.py)."""

from __future__ import annotations

import torch
from compatibility_features import Losses, Watch, fit
from conftest import Mlp
from torch import nn


class _Codes(nn.Module):
    """Whole numbers and masks that are written out of BF16 values, and used again."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Mlp()
        self.scale = nn.Embedding(16, 1)
        self.register_buffer("codes", torch.zeros(16, dtype=torch.int64))
        self.register_buffer("high", torch.zeros(16, 3, dtype=torch.bool))
        self.register_buffer("best", torch.zeros(16, dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            made = self.inner(x)
        with torch.no_grad():
            rows = len(x)
            self.codes[:rows].copy_(made.sum(1) * 1000)
            torch.gt(made, made.mean(), out=self.high[:rows])
            values = torch.empty(rows, dtype=made.dtype)
            torch.max(made, 1, out=(values, self.best[:rows]))
            at = (self.codes + self.high.sum(1) + self.best)[:rows] % 16
        return made + self.scale(at)


def whole_numbers_of_floats(watch: Watch) -> Losses:
    return fit(watch, _Codes())
