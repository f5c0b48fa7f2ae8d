"""The trace of operators where tensors are on a device: what each of them made is asked of the
device and not waited for. Which made the first bad value is worked out when the answers are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from .origins import NAN, NEGINF, POSINF, Origin, rank
from .places import Place, pass_through
from .trace import MAX_ORIGINS, Operator, OperatorTrace, memory_of, scalars

MAX_CALLS = 50_000  # of a step

pass_through(__file__)


@dataclass(slots=True)
class _Output:
    memory: int
    whole: bool  # nothing of the memory keeps what it held
    slip: Any
    dtype: str  # "float16"
    shape: list[int]


@dataclass(slots=True)
class _Call:
    """One operator, or (without one) tensors that an alert may be about."""

    operator: Operator | None
    where: tuple[str, Place, dict[str, str]] | None
    read: list[int]  # memory
    numbers: int  # bits of arguments that are no tensors
    outputs: list[_Output]


def _all(value: Any, depth: int = 0) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif depth < 4 and isinstance(value, (tuple, list)):
        for each in value:
            yield from _all(each, depth + 1)


def _bits(slip: Any) -> int:
    low, high = slip.values
    if low != low or high != high:
        return NAN
    return (POSINF if high == float("inf") else 0) | (NEGINF if low == float("-inf") else 0)


class LateTrace(OperatorTrace):
    """`ask(tensor)`: the slip that will have the tensor's smallest and largest element, both NaN if
    one is; None for what cannot be asked.
    """

    def __init__(self, *arguments: Any, ask: Callable[[torch.Tensor], Any]) -> None:
        super().__init__(*arguments)
        self._ask = ask
        self._calls: list[_Call] = []
        self._asked: set[int] = set()  # memory that is known before the next operator reads it

    def _look_before(self, operator: Operator, args: Any, kwargs: Any) -> tuple[int, float | None]:
        """What is met for the first time (weights, the batch) is asked before it can change."""
        found = []
        for tensor in _all(operator.read(args, kwargs)):
            memory = memory_of(tensor)
            if memory not in self._asked:
                found.append((memory, tensor))
        self._add(None, None, [], 0, found)
        return 0, None

    def _after(
        self,
        operator: Operator,
        place: Place | None,
        bits: int,
        largest: float | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        result: Any,
    ) -> None:
        if len(self._calls) >= MAX_CALLS:
            return
        made = [(memory_of(tensor), tensor) for tensor in _all(operator.made(args, kwargs, result))]
        if not made:
            return
        read = [memory_of(tensor) for tensor in _all(operator.read(args, kwargs))]
        numbers = scalars(args) | scalars(list(kwargs.values()))
        self._add(operator, self.where(operator, place), read, numbers, made)

    def _add(
        self,
        operator: Operator | None,
        where: tuple[str, Place, dict[str, str]] | None,
        read: list[int],
        numbers: int,
        tensors: list[tuple[int, torch.Tensor]],
    ) -> None:
        outputs = []
        with torch.no_grad():
            for memory, tensor in tensors:
                slip = self._ask(tensor) if memory else None
                if slip is None:
                    continue
                self._asked.add(memory)
                size = tensor.numel() * tensor.element_size()
                whole = size >= tensor.untyped_storage().nbytes()
                dtype, shape = str(tensor.dtype)[6:], list(tensor.shape)
                outputs.append(_Output(memory, whole, slip, dtype, shape))
        if outputs:
            self._calls.append(_Call(operator, where, read, numbers, outputs))

    def blame(self, value: Any) -> None:
        memory = [each for each in map(memory_of, _all(value)) if each]
        if memory and self._calls:
            self._calls.append(_Call(None, None, memory, 0, []))

    def resolve(self) -> None:
        """The answers are there: fills `origins` and `blamed`."""
        bits: dict[int, int] = {}
        largest: dict[int, float] = {}
        made_by: dict[int, Origin | None] = {}
        for call in self._calls:
            came = 0
            for memory in call.read:
                came |= bits.get(memory, 0)
            parents = (made_by.get(memory) for memory in call.read if bits.get(memory))
            parent = next((each for each in parents if each is not None), None)
            if call.operator is None and not call.outputs:
                self.blamed = self.blamed or parent
                continue
            out = 0
            for output in call.outputs:
                out |= _bits(output.slip)
            origin = parent
            came |= call.numbers
            if call.operator is not None and call.where is not None and rank(out) > rank(came):
                if len(self.origins) < MAX_ORIGINS:
                    origin = self._late_origin(call, came, largest, parent)
                    self.origins.append(origin)
            for output in call.outputs:
                now = _bits(output.slip)
                kept = 0 if output.whole else bits.get(output.memory, 0)
                bits[output.memory] = now | kept
                if now:
                    made_by[output.memory] = origin
                else:
                    largest[output.memory] = max(map(abs, output.slip.values))
        self._calls.clear()

    def _late_origin(
        self, call: _Call, came: int, largest: dict[int, float], parent: Origin | None
    ) -> Origin:
        assert call.operator is not None and call.where is not None
        bad = next(output for output in call.outputs if _bits(output.slip))
        bits = _bits(bad.slip)
        parts = ((NAN, "nan"), (POSINF, "posinf"), (NEGINF, "neginf"))
        sizes = [largest[memory] for memory in call.read if memory in largest]
        return self.origin(
            call.where,
            call.operator,
            parent,
            made={name: None for bit, name in parts if bits & bit},  # not counted there
            dtype=bad.dtype,
            shape=bad.shape,
            elements=None,
            bits=came,
            largest=max(sizes, default=None),
        )
