"""What modules have made in a step between two samples, on a device: noted as they run, and asked
for together by two launches for many tensors.

Until then the tensors are kept, so they are asked for when there are many of them, when they are
large, and when the backward pass begins. What was written meanwhile is no longer what the module
has made: nothing is said of it.
"""

from __future__ import annotations

import math
import weakref
from typing import Any

import torch

from .. import _core
from ..base.later import Mail, Slip
from ..operators.modes import own_work
from .figures import extremes, norms, readable

MOST_TENSORS = 64
MOST_BYTES = 64 << 20  # that are kept beyond what the program keeps

_TENSORS, _DEPTH = 16, 3  # of one call, as the core looks for them


class Gathered:
    """Of one step."""

    def __init__(self, mail: Mail) -> None:
        self._mail = mail
        # Of each tensor, in the order in which they were noted.
        self._tensors: list[torch.Tensor | None] = []  # until it was asked for
        self._versions: list[int] = []
        self._layers: list[int] = []  # that has made it; 0 of an input that nobody has made
        # None where it was written before it was asked for.
        self._where: list[tuple[Slip, int, str, int] | None] = []  # the place in it, type, numel
        self._readings: dict[int, Any] = {}
        self._bytes = 0
        self._known: dict[int, tuple[Any, int, int]] = {}  # by the tensor's id, while it lives
        self.written: set[int] = set()  # layers whose tensors were written before that

    def note(self, value: Any, layer: int) -> list[int]:
        """The numbers of the tensors in `value` that can be read. `layer`: has made them, 0."""
        if type(value) is torch.Tensor:
            number = self._note(value, layer)
            numbers = [] if number is None else [number]
        else:
            made = [self._note(each, layer) for each in collect(value, [])]
            numbers = [each for each in made if each is not None]
        if self._bytes > MOST_BYTES or len(self._tensors) - len(self._where) >= MOST_TENSORS:
            self.ask()
        return numbers

    def _note(self, value: torch.Tensor, layer: int) -> int | None:
        known = self._known.get(id(value))
        version = _version(value)
        if known is not None and known[0]() is value and known[1] == version:
            return known[2]
        tensor = readable(value)
        if tensor is None:
            return None
        number = len(self._tensors)
        self._tensors.append(tensor)
        self._versions.append(version)
        self._layers.append(layer)
        self._bytes += tensor.numel() * tensor.element_size()
        self._known[id(value)] = (weakref.ref(value), version, number)
        return number

    def ask(self) -> None:
        """Asks for what was noted so far."""
        self._bytes = 0
        first = len(self._where)
        alike: dict[tuple[torch.device, torch.dtype], list[int]] = {}
        for number in range(first, len(self._tensors)):
            tensor = self._tensors[number]
            assert tensor is not None
            self._where.append(None)
            if _version(tensor) == self._versions[number]:
                alike.setdefault((tensor.device, tensor.dtype), []).append(number)
            elif self._layers[number]:
                self.written.add(self._layers[number])
        with torch.no_grad(), own_work():
            for (_, dtype), numbers in alike.items():
                some = [each for number in numbers if (each := self._tensors[number]) is not None]
                slip, name = self._mail.put(*_largest(some)), str(dtype).removeprefix("torch.")
                for at, (number, tensor) in enumerate(zip(numbers, some, strict=True)):
                    self._where[number] = (slip, at, name, tensor.numel())
        self._tensors[first:] = [None] * (len(self._tensors) - first)

    def readings(self, numbers: list[int]) -> list[Any]:
        """What the core takes for them; once the mail is open."""
        return [found for number in numbers if (found := self._reading(number)) is not None]

    def _reading(self, number: int) -> Any:
        found = self._readings.get(number)
        where = self._where[number]
        if found is None and where is not None:
            slip, at, name, numel = where
            values = slip.values
            most, size = values[at], values[len(values) // 2 + at]
            found = self._readings[number] = _core.extremes(name, numel, _least(most, size), most)
        return found


def collect(value: Any, into: list[torch.Tensor], depth: int = 0) -> list[torch.Tensor]:
    """The tensors in a call's arguments or result, in order."""
    if isinstance(value, torch.Tensor):
        if len(into) < _TENSORS:
            into.append(value)
    elif depth <= _DEPTH and isinstance(value, (tuple, list)):
        for each in value:
            collect(each, into, depth + 1)
    elif depth <= _DEPTH and isinstance(value, dict):
        for each in value.values():
            collect(each, into, depth + 1)
    return into


def _version(tensor: torch.Tensor) -> int:
    """Of what is never written, and so never changes under its name, 0."""
    return 0 if tensor.is_inference() else tensor._version


def _least(most: float, size: float) -> float:
    """The least element, as far as it is known: of those that are no larger in size than `most`,
    the greatest one, it does not matter.
    """
    return -size if size > abs(most) else most


def _largest(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Of each the greatest element and then of each the largest magnitude; both NaN if one is."""
    if tensors[0].element_size() == 1:
        tensors = [each.float() for each in tensors]
    together = getattr(torch, "_foreach_max", None)
    if together is None:
        ends = [extremes(each) for each in tensors]
        sizes = [torch.maximum(-low, high) for low, high in ends]
        return [*(high for _, high in ends), *sizes]
    return [*together(tensors), *norms(tensors, math.inf)]
