"""Steps of a model that no optimizer of torch's updates: an optimizer class of the program, or
`p -= lr * p.grad` in its loop. A step is over when its weights have changed since its backward
pass; without any change (gradients accumulate) the next backward pass belongs to it as well.
"""

from __future__ import annotations

import ctypes
import math
import struct
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from ..model.optimizers import Optimizers
from ..model.watched import WatchedModel
from ..model.weights import has_optimizer
from .reading import graph_task_id
from .step import OpenStep

MOST_TENSORS = 64  # that are looked at
HEAD = 64  # bytes of each
ALONE = 0.01  # of a gradient's norm: what rounding may leave between it and a multiple of itself


class Marks:
    """What tensors and their gradients were at a moment, without reading them whole."""

    def __init__(self, tensors: Iterable[torch.Tensor]) -> None:
        self._tensors = list(tensors)[:MOST_TENSORS]
        self._weights = [_mark(each) for each in self._tensors]
        self._gradients = [_mark(each.grad) for each in self._tensors]

    def weights_changed(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether `tensors`, the same ones, have been changed or replaced since."""
        return [_mark(each) for each in tensors[:MOST_TENSORS]] != self._weights

    def gradients_changed(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether their gradients have been zeroed or dropped."""
        return [_mark(each.grad) for each in tensors[:MOST_TENSORS]] != self._gradients


def head(tensor: Any) -> bytes:
    """Its first bytes, without an operator; none where they cannot be had at once."""
    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout is torch.strided
    if not plain or tensor.device.type != "cpu" or not tensor.is_contiguous():
        return b""
    size = min(HEAD, tensor.numel() * tensor.element_size())
    return ctypes.string_at(tensor.data_ptr(), size) if size else b""


def _mark(tensor: Any) -> tuple[Any, ...]:
    """A write through .data counts no version."""
    if tensor is None:
        return ()
    return id(tensor), None if tensor.is_inference() else tensor._version, head(tensor)


class Witness:
    """A parameter that a backward pass has given a gradient, and how that begins."""

    def __init__(self, parameter: Any) -> None:
        self.parameter = parameter
        self._gradient = weakref.ref(parameter.grad)
        self._head = head(parameter.grad)
        self._dtype = parameter.grad.dtype

    def is_gone(self) -> bool:
        """Whether that gradient was dropped or zeroed since."""
        now = self.parameter.grad
        return now is None or (any(self._head) and not any(head(now)))

    def is_alone_in(self, gradient: torch.Tensor) -> bool:
        """Whether `gradient` is that of the pass, be it scaled, and no sum with others. Where its
        numbers are out of reach it is, if it is the same tensor.
        """
        mine = _numbers(self._head, self._dtype)
        other = _numbers(head(gradient), gradient.dtype)
        count = min(len(mine), len(other))
        mine, other = mine[:count], other[:count]
        size = math.fsum(each * each for each in mine)
        if not size:
            return bool(count) or self._gradient() is gradient
        factor = math.fsum(a * b for a, b in zip(mine, other, strict=True)) / size
        rest = math.fsum((b - factor * a) ** 2 for a, b in zip(mine, other, strict=True))
        return not rest > ALONE**2 * math.fsum(each * each for each in other)


def _numbers(data: bytes, dtype: torch.dtype) -> list[float]:
    """The first numbers of a tensor out of its first bytes."""
    if dtype is torch.bfloat16:  # the upper half of a FP32 number
        wide = b"".join(b"\0\0" + data[at : at + 2] for at in range(0, len(data) - 1, 2))
        return list(struct.unpack(f"={len(wide) // 4}f", wide))
    code = {torch.float32: "f", torch.float64: "d", torch.float16: "e"}.get(dtype)
    if code is None:
        return []
    return list(struct.unpack(f"={len(data) // struct.calcsize(code)}{code}", data))


class ByHand:
    """Of one run. `per_step`: how many backward passes a step has, as far as that is known.
    `certain`: weights have been seen to change without an optimizer; until then one may be about to
    step for the first time, and only its step shows gradients whole.
    """

    PATIENCE = 16  # backward passes without any change, as of updates that are lost to rounding

    def __init__(self, model: WatchedModel, optimizers: Optimizers) -> None:
        self._model = model
        self._optimizers = optimizers
        self._marks: Marks | None = None
        self._looked = False
        self.certain = False
        self.per_step = 1

    def backward_ended(self, step: OpenStep) -> bool:
        """Whether the gradients of `step` are complete now; with an optimizer that holds them that
        is known when it steps.
        """
        complete = step.backwards >= self.per_step
        if self._optimizers.main is not None:
            return self._optimizers.main_uses_own_gradients and complete
        if step.backwards >= self.PATIENCE and not self._looked:
            self._looked = True
            self.certain = self.certain or not has_optimizer(self._model.module)
        self._marks = Marks(self._model.parameters.parameters)
        return self.certain and complete

    def is_over(self, step: OpenStep) -> bool:
        """Whether `step` has been followed by an update of which no optimizer has told."""
        if self._optimizers.main is not None or step.explicit or self._marks is None:
            return False
        if not step.backwards or graph_task_id() != -1:
            return False
        weights = self._model.parameters.parameters
        changed = self._marks.weights_changed(weights)
        self.certain = self.certain or changed
        if not changed and not (self.certain and self._marks.gradients_changed(weights)):
            return False
        self.per_step = step.backwards
        return True
