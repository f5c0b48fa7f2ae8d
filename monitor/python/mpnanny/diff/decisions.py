"""Whole numbers and decisions that come out of floating-point ones: indices, bins, masks, counts.
The error of a value ends where it is cut to a whole number: there both runs are held side by side.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch

from ..fp64.call import tensors_of
from ..fp64.operators import Operator
from ..fp64.places import Site

MOST_ELEMENTS = 1 << 20  # of one result
MOST_BYTES = 256 << 20  # of all that are kept

# Of a result that must differ. Near ties fall the other way in any 16-bit format: that is so of
# every argmax and top-k, and seldom of a cast to whole numbers.
CAST_SHARE = 0.05
CHOICE_SHARE = 0.25


@dataclass(slots=True)
class Differing:
    """An operator whose whole numbers are others than those of the FP32 run."""

    site: Site
    number: int  # of the operator in the run
    dtype: str
    shape: str
    share: float

    @property
    def is_cast(self) -> bool:
        """To whole numbers: they are meant to be exact."""
        return self.site.operator.startswith(("aten._to_copy", "aten.copy_"))

    @property
    def counts(self) -> bool:
        return self.share >= (CAST_SHARE if self.is_cast else CHOICE_SHARE)


class Decisions:
    """Of one run; `before`: those of the FP32 run, to hold them against."""

    def __init__(self, before: Decisions | None = None) -> None:
        self.differing: list[Differing] = []
        self._before = before
        self._made: dict[Any, torch.Tensor] = {}
        self._calls: Counter[Any] = Counter()
        self._bytes = 0

    def made(self, operator: Operator, site: Site, number: int, result: Any) -> None:
        """`operator`, into which floating-point numbers went, has given `result`."""
        for at, each in enumerate(tensors_of(result)):
            if each.is_floating_point() or each.is_complex() or not 0 < each.numel():
                continue
            key = (operator.name, site.file, site.line, at)
            self._calls[key] += 1
            self._see((*key, self._calls[key]), site, number, each.detach())

    def _see(self, key: Any, site: Site, number: int, held: torch.Tensor) -> None:
        if self._before is None:
            size = held.numel() * held.element_size()
            if held.numel() <= MOST_ELEMENTS and self._bytes + size <= MOST_BYTES:
                self._bytes += size
                self._made[key] = held.clone()
            return
        other = self._before._made.get(key)
        if other is None or other.shape != held.shape:
            return
        share = (other != held).sum().item() / held.numel()
        if share > 0:
            dtype = str(held.dtype).removeprefix("torch.")
            self.differing.append(Differing(site, number, dtype, str(list(held.shape)), share))
