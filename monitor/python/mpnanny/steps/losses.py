"""The loss of a step out of those of its backward passes: their mean. Where each was divided by the
number of passes before it was derived (accumulation over micro-batches), it is divided no second
time.
"""

from __future__ import annotations

import ctypes
import math
import struct
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ..base.later import Later

# A number, or one that a device will give after the step.
Figure = float | Later

MOST_PASSES = 1 << 16  # that a loss may have been divided by
_WHOLE = 1e-4  # a factor of 1/3 is no exact third


@dataclass(slots=True)
class _Some:
    """Of some passes."""

    sum: Figure | None = None
    passes: int = 0
    divisor: int = 0  # that all of their losses were divided by last; 0: none yet

    def add(self, other: _Some) -> None:
        if other.sum is not None:
            self.sum = other.sum if self.sum is None else self.sum + other.sum
        same = not self.passes or self.divisor == other.divisor
        self.divisor = other.divisor if same else 1
        self.passes += other.passes


@dataclass(slots=True)
class Losses:
    """Of one step. `usual`: how many passes the step before had."""

    usual: int = 1
    _seen: _Some = field(default_factory=_Some)
    _dropped: _Some = field(default_factory=_Some)
    _before: _Some | None = None  # what there was before the newest one

    def add(self, values: list[Figure | None], divisor: int = 1) -> None:
        """One backward pass: its losses, and what they were divided by."""
        known = [each for each in values if each is not None]
        self._before = replace(self._seen)
        if known:
            self._seen.add(_Some(sum(known[1:], known[0]), 1, divisor))

    def take_last_out(self) -> bool:
        """What was added last was no loss; whether another one is left."""
        if self._before is not None:
            self._seen, self._before = self._before, None
        return self._seen.passes > 0

    def drop(self) -> None:
        """The passes so far have left nothing in the gradients."""
        self._dropped.add(self._seen)
        self._seen, self._before = _Some(), None

    def take_back(self) -> bool:
        """Their gradients were put aside and come to the optimizer after all; whether there were
        any.
        """
        dropped, self._dropped = self._dropped, _Some()
        if not dropped.passes:
            return False
        dropped.add(self._seen)
        self._seen = dropped
        return True

    @property
    def dropped(self) -> int:
        return self._dropped.passes

    @property
    def value(self) -> Figure | None:
        seen = self._seen
        if seen.sum is None or seen.passes < 2:
            return seen.sum
        return seen.sum if self.factor == 1.0 else seen.sum * (1.0 / self.factor)

    @property
    def factor(self) -> float:
        """What the sum of the passes' losses is of the step's loss."""
        seen = self._seen
        if seen.passes < 2:
            return 1.0
        divided = seen.divisor if seen.divisor in (seen.passes, self.usual) else 1
        return seen.passes / divided


def divisor_of(loss: torch.Tensor) -> int:
    """The whole number that `loss` was divided by last, or multiplied with its inverse; 1: none."""
    node: Any = loss.grad_fn
    name = "" if node is None else node.name()
    if not name.startswith(("DivBackward", "MulBackward")):
        return 1
    other = getattr(node, "_saved_other", None)
    if not isinstance(other, torch.Tensor) or other.device.type != "cpu" or other.numel() != 1:
        return 1
    number = _number(other)
    if not number or not math.isfinite(number):
        return 1
    number = number if name.startswith("Div") else 1.0 / number
    whole = round(number)
    if whole < 2 or whole > MOST_PASSES or abs(number - whole) > _WHOLE * whole:
        return 1
    return whole


def _number(tensor: torch.Tensor) -> float:
    """Its only number, without an operator: a shadow step cannot take numbers for tensors. 0 where
    it has another type.
    """
    code = {torch.float64: "d", torch.float32: "f", torch.int64: "q"}.get(tensor.dtype)
    if code is None:
        return 0.0
    return float(struct.unpack(code, ctypes.string_at(tensor.data_ptr(), tensor.element_size()))[0])
