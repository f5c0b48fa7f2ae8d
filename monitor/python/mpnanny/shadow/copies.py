"""Copies of what modules keep in their attributes, for a forward pass that is run again: tensors,
and containers of them to a small depth. Generators stay and are set back.
"""

from __future__ import annotations

import copy
import random
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

MOST_DEPTH = 4  # of containers in containers
MOST_ITEMS = 1 << 17  # of a container whose items are copied as well

_SEQUENCES = frozenset((list, deque))
_MAPPINGS = frozenset((dict, OrderedDict, defaultdict, Counter))


class NotAgain(Exception):
    """A module cannot be run again without a trace."""


class Copies:
    """What is one object in the modules is one copy. `most_bytes`: of all tensors together."""

    def __init__(self, most_bytes: int) -> None:
        self.modules: list[nn.Module] = []  # in containers, where nn.Module does not see them
        self.tensors: list[torch.Tensor] = []
        self._left = most_bytes
        # By the id of the original, which stays alive beside its copy.
        self._made: dict[int, tuple[Any, Any]] = {}
        self._contents: list[tuple[Any, Any]] = []  # containers, and what was in them
        self._undo: list[Callable[[], None]] = []

    def of(self, value: Any, depth: int = 0) -> Any:
        """The copy of `value`; itself where it is of another kind."""
        known = self._made.get(id(value))
        if known is not None:
            return known[1]
        kind = type(value)
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, nn.Module):
            self.modules.append(value)
        elif depth < MOST_DEPTH and (kind in _SEQUENCES or kind in _MAPPINGS or kind is set):
            return self._container(value, depth)
        elif depth < MOST_DEPTH and isinstance(value, tuple):
            return self._tuple(value, depth)
        elif (put_back := generator_state(value)) is not None:
            self._undo.append(put_back)
            self._made[id(value)] = value, value
        return value

    def _tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        if isinstance(tensor, nn.Parameter):
            return tensor
        self._left -= tensor.numel() * tensor.element_size()
        if self._left < 0:
            raise NotAgain("there is not enough free memory for copies")
        made = tensor.detach().clone()
        if tensor.requires_grad:
            made.requires_grad_()
        self._made[id(tensor)] = tensor, made
        self.tensors.append(made)
        return made

    def _container(self, value: Any, depth: int) -> Any:
        made = copy.copy(value)
        self._made[id(value)] = value, made
        self._contents.append((value, copy.copy(value)))
        if len(value) > MOST_ITEMS:
            return made
        items: Iterable[Any] = ()
        if type(value) in _MAPPINGS:
            items = value.items()
        elif type(value) in _SEQUENCES:
            items = enumerate(value)
        for key, each in items:
            made[key] = self.of(each, depth + 1)
        return made

    def _tuple(self, value: tuple[Any, ...], depth: int) -> tuple[Any, ...]:
        items = [self.of(each, depth + 1) for each in value]
        if all(mine is theirs for mine, theirs in zip(items, value, strict=True)):
            return value
        make: Any = getattr(type(value), "_make", type(value))  # a named tuple has one
        made: tuple[Any, ...] = make(items)
        self._made[id(value)] = value, made
        return made

    def put_back(self) -> None:
        """Generators, and what was put into an original after all, by another name of it."""
        for undo in self._undo:
            undo()
        for container, was in self._contents:
            now, before = _items(container), _items(was)
            if len(now) == len(before) and all(map(_is, now, before)):
                continue
            container.clear()
            if isinstance(container, (dict, set)):
                container.update(was)
            else:
                container.extend(was)


def _items(container: Any) -> list[Any]:
    if isinstance(container, dict):
        return [*container, *container.values()]
    return list(container)


def _is(one: Any, other: Any) -> bool:
    return one is other


def generator_state(value: Any) -> Callable[[], None] | None:
    """What sets the generator `value` back to its state of now; None where it is none."""
    if isinstance(value, torch.Generator):
        state = value.get_state()

        def set_back() -> None:
            value.set_state(state)

        return set_back
    if isinstance(value, random.Random) and not isinstance(value, random.SystemRandom):
        own = value.getstate()
        return lambda: value.setstate(own)
    numpy = sys.modules.get("numpy.random")  # never imported here
    if numpy is None:
        return None
    if isinstance(value, numpy.Generator):
        value = value.bit_generator
        bits = value.state
        return lambda: setattr(value, "state", bits)
    if isinstance(value, numpy.RandomState):
        legacy = value.get_state()
        return lambda: value.set_state(legacy)
    return None


def common_generators() -> list[Callable[[], None]]:
    """What sets back the generators that every module can draw from: torch's, Python's, NumPy's."""
    host = torch.get_rng_state()
    undo: list[Callable[[], None]] = [lambda: torch.set_rng_state(host)]
    if torch.cuda.is_initialized():
        devices = torch.cuda.get_rng_state_all()
        undo.append(lambda: torch.cuda.set_rng_state_all(devices))
    python = random.getstate()
    undo.append(lambda: random.setstate(python))
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        own = numpy.get_state()
        undo.append(lambda: numpy.set_state(own))
    return undo
