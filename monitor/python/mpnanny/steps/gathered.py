"""A step's tensors on a device: noted as they come, and asked for together, by one launch of our
kernels for many of them, or by torch's operators where those cannot be used.

Until then the tensors are kept, so they are asked for when there are many of them, when they are
large, and when the backward pass begins. What was written meanwhile is no longer what the module
has made: nothing is said of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from .. import _core
from ..base.device_kernels import Launches
from ..base.later import Mail, Slip
from ..model.samples import may_read
from ..operators.modes import own_work
from .figures import extremes, norms, parts, readable, whole
from .slots import SlotRing, Slots

# What is wanted of a tensor, as the core numbers it. By the kernels the first three are one.
EXTREMES, LARGEST, NORM, WHOLE = range(4)

_KERNELS = ("flags", "figures")


class Reader:
    """Reads tensors of one device by our kernels."""

    def __init__(self, launches: Launches, like: torch.Tensor) -> None:
        self.like = like
        self.launches = launches
        self.ring = SlotRing(like.device)


class Gathered:
    """Of one step. `reader`: None where the kernels cannot be used. `at_once`: layers whose outputs
    are asked for as soon as they are there; those whose outputs were written earlier join them.
    """

    def __init__(
        self, core: Any, mail: Mail, reader: Reader | None, sampled: bool, at_once: set[int]
    ) -> None:
        self._mail = mail
        self._reader = reader
        self._tensors = _core.Gathered(core, None if reader is None else reader.like, sampled)
        self._at_once = at_once
        self._tensors.ask_at_once(list(at_once))
        self._slots: list[Slots] = []
        self._streams: set[int] = set()  # of launches
        # By torch's operators: number of a tensor, and what makes a reading of it.
        self._answers: list[tuple[int, Callable[[], Any]]] = []
        # note(layer, leaf, inputs, output): a module's call; True: it is time to ask.
        self.note = self._tensors.note
        self.calls = self._tensors.calls
        # Once the answers are there: of a number, or None; a tensor's one element, or None.
        self.reading, self.value = self._tensors.reading, self._tensors.value
        # report(first, last, own_of): reports these calls to the core. `own_of(layer)`: readings of
        # a module's parameters.
        self.report = self._tensors.report

    def add(self, tensor: Any, wanted: int, layer: int = 0) -> int:
        """The number of a tensor; -1 if it cannot be read. `layer`: of which it is a gradient."""
        number = self._tensors.add(tensor, wanted, layer)
        if self._tensors.is_full() or layer in self._at_once:
            self.ask()
        return number

    def read(self, tensors: list[Any], wanted: int) -> list[int]:
        """The number of each, which is asked for at once: they will be written."""
        numbers = self._tensors.add_all(tensors, wanted)
        self.ask()
        return numbers

    def ask(self) -> None:
        """Asks for what was noted so far."""
        others = self._tensors.close()
        reader = self._reader
        if not may_read():  # it would be done again whenever the graph runs
            self._tensors.release()
            return
        with torch.no_grad(), own_work():
            if reader is not None:
                others = [each for each in others if not self._replaces(each)]
                for kernel in _KERNELS:
                    self._launch(reader, kernel)
            if others:
                self._by_operators(others)
        written = self._tensors.release()
        if written:
            self._at_once.update(written)
            self._tensors.ask_at_once(written)

    def _replaces(self, other: tuple[int, int, bool, torch.Tensor]) -> bool:
        """A tensor with gaps in its memory is read as a copy."""
        number, _, here, tensor = other
        return here and self._tensors.replace(number, tensor.contiguous())

    def _launch(self, reader: Reader, kernel: str) -> None:
        for stream, rows, scratch in self._tensors.waiting(kernel):
            slots = next((each for each in self._slots if _has_room(each, kernel, rows)), None)
            if slots is None:
                slots = reader.ring.take(kernel, rows)
                self._slots.append(slots)
            chunk = self._slots.index(slots)
            self._streams.add(
                reader.launches.run_gathered(kernel, self._tensors, stream, chunk, slots, scratch)
            )
            slots.used += rows

    def _by_operators(self, others: list[tuple[int, int, bool, torch.Tensor]]) -> None:
        alike: dict[tuple[torch.device, torch.dtype, int], list[tuple[int, torch.Tensor]]] = {}
        for number, wanted, _, each in others:
            tensor = readable(each)
            if tensor is None:
                continue
            if wanted == WHOLE:
                self._read_whole(number, tensor)
            else:
                key = (tensor.device, tensor.dtype, wanted)
                alike.setdefault(key, []).append((number, tensor))
        for (_, dtype, wanted), pairs in alike.items():
            tensors = [tensor for _, tensor in pairs]
            if wanted == EXTREMES:
                values = _largest(tensors)
            else:
                values = norms(tensors, 2.0 if wanted == NORM else math.inf)
            slip = self._mail.put(*values)
            make = _extremes_of if wanted == EXTREMES else _norm_of
            name = str(dtype).removeprefix("torch.")
            for at, (number, tensor) in enumerate(pairs):
                self._answers.append((number, make(name, tensor.numel(), slip, at)))

    def _read_whole(self, number: int, tensor: torch.Tensor) -> None:
        name, numel = str(tensor.dtype).removeprefix("torch."), tensor.numel()
        slips = [self._mail.put(each) for part in parts(tensor) for each in whole(part)]
        self._answers.append((number, lambda: _core.whole(name, numel, _figures(slips))))

    def send(self) -> None:
        """Nothing more is asked for: slots go with the mail."""
        if self._reader is not None:
            self._reader.launches.join(self._streams)
        for slots in self._slots:
            self._mail.bring(slots.host[: slots.used], slots.device[: slots.used])

    def arrived(self) -> None:
        """The mail is open."""
        for chunk, slots in enumerate(self._slots):
            size = _core.DEVICE_SLOT_BYTES[slots.kernel] * slots.used
            self._tensors.read(slots.kernel, chunk, slots.host.data_ptr(), size)
            if self._reader is not None:
                self._reader.ring.give(slots)
        self._slots.clear()
        for number, make in self._answers:
            self._tensors.set(number, make())
        self._answers.clear()


def _has_room(slots: Slots, kernel: str, rows: int) -> bool:
    return slots.kernel == kernel and slots.rows - slots.used >= rows


def _extremes_of(name: str, numel: int, slip: Slip, at: int) -> Callable[[], Any]:
    def make() -> Any:
        values = slip.values
        most, size = values[at], values[len(values) // 2 + at]
        return _core.extremes(name, numel, _least(most, size), most)

    return make


def _norm_of(name: str, numel: int, slip: Slip, at: int) -> Callable[[], Any]:
    return lambda: _core.norm(name, numel, slip.values[at])


def _figures(slips: list[Slip]) -> list[float]:
    figures: list[float] = []
    for at in range(0, len(slips), 3):
        counts, ends, moments = (slip.values for slip in slips[at : at + 3])
        figures += [*counts[:5], *ends, *moments, *counts[5:]]
    return figures


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
