"""What files of the program have held when it loaded them: states that were saved together.

Kept is a digest, not the file: names, shapes and the first numbers of each tensor, which is enough
to tell whether an object of the process holds that state. Of the whole process, because a program
loads its states before a training begins.
"""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field
from threading import get_ident
from typing import Any

import torch
from torch import nn

from ..operators.modes import others_on
from ..operators.places import users_line

MOST_FILES = 4
MOST_TENSORS = 20_000
MOST_DEPTH = 3
FIRST = 8  # numbers of a tensor
SAME = 1e-6  # relative; in another type COARSE
COARSE = 1e-2


@dataclass(slots=True)
class Digest:
    """Of one tensor."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    first: tuple[float, ...]

    def is_like(self, other: Digest) -> bool:
        tolerance = SAME if self.dtype is other.dtype else COARSE
        return self.shape == other.shape and all(
            _is_same(a, b, tolerance) for a, b in zip(self.first, other.first, strict=False)
        )


def _is_same(a: float, b: float, tolerance: float) -> bool:
    """A NaN that was saved is the same NaN when it is held again."""
    both = math.isnan(a) and math.isnan(b)
    return both or a == b or math.isclose(a, b, rel_tol=tolerance, abs_tol=1e-12)


@dataclass(slots=True)
class SavedModule:
    name: str  # where it stands in the file: "ema"
    tensors: dict[str, Digest]


@dataclass(slots=True)
class SavedOptimizer:
    name: str
    settings: list[dict[str, Any]]  # of each group, the plain numbers
    counts: list[int]  # parameters of each group
    states: dict[Any, dict[str, Digest]]  # of each parameter that has one

    @property
    def with_state(self) -> int:
        return sum(1 for each in self.states.values() if each)


@dataclass(slots=True)
class SavedNumbers:
    """A scaler, a scheduler: a dict of plain numbers and what else there is."""

    name: str
    keys: frozenset[str]
    numbers: dict[str, float]


@dataclass(slots=True)
class LoadedFile:
    modules: list[SavedModule] = field(default_factory=list)
    optimizers: list[SavedOptimizer] = field(default_factory=list)
    numbers: list[SavedNumbers] = field(default_factory=list)
    file: str = ""  # where it was read, or the model took its state
    line: int = 0
    thread: int = field(default_factory=get_ident)  # that has loaded it
    judged: bool = False  # by the run whose model it holds


@dataclass(slots=True)
class OptimizerLoad:
    """An optimizer has taken a state."""

    file: str  # where
    line: int
    given: dict[str, set[torch.dtype]]  # of what it was given, by the state's name
    judged: bool = False


_newest: list[LoadedFile] = []
_count = 0  # files so far that hold several states
_loads = 0
_optimizers: weakref.WeakKeyDictionary[Any, OptimizerLoad] = weakref.WeakKeyDictionary()


def loads() -> int:
    """Files that were read and states that were taken so far, of any kind."""
    return _loads


def count() -> int:
    """Files so far: what a run asks at each step."""
    return _count


def since(before: int) -> list[LoadedFile]:
    """The files that were loaded after the first `before`, as far as they are kept. Each run takes
    them by itself: whose they are shows what they hold.
    """
    files, new = list(_newest), _count - before
    return [each for each in files[-new:] if not each.judged] if new > 0 else []


def heard_file(content: Any) -> None:
    """torch.load() has returned `content`. Nothing that goes wrong here gets to the program, nor do
    modes of it see what is read.
    """
    global _loads
    _loads += 1
    if others_on():
        return
    with contextlib.suppress(Exception), torch.no_grad():
        _read(content)


def _read(content: Any) -> None:
    global _count
    if type(content) is not dict:
        return
    found = LoadedFile()
    _walk(content, "", found, 0)
    if not found.modules or not (found.optimizers or found.numbers or len(found.modules) > 1):
        return  # weights alone
    _place(found)
    _newest.append(found)
    del _newest[:-MOST_FILES]
    _count += 1


def heard_state_loaded(taker: Any, given: Any) -> None:
    """A module or an optimizer has taken the state `given`, mostly of its thread's newest file."""
    global _loads
    _loads += 1
    with contextlib.suppress(Exception):
        if not issubclass(type(taker), nn.Module):
            _optimizers[taker] = OptimizerLoad(*users_line(), _types_of(given))
        elif own := [each for each in _newest if each.thread == get_ident()]:
            _place(own[-1])


def newest_load(optimizer: Any) -> OptimizerLoad | None:
    """Of the state that it has taken last; None if it has not."""
    return _optimizers.get(optimizer)


def _types_of(given: Any) -> dict[str, set[torch.dtype]]:
    """The types of an optimizer's states, by name."""
    found: dict[str, set[torch.dtype]] = {}
    states = given.get("state") if isinstance(given, dict) else None
    for state in states.values() if isinstance(states, dict) else ():
        for name, each in state.items() if isinstance(state, dict) else ():
            if isinstance(each, torch.Tensor) and each.dim():
                found.setdefault(str(name), set()).add(each.dtype)
    return found


def _place(found: LoadedFile) -> None:
    file, line = users_line()
    if line:
        found.file, found.line = file, line


def _walk(value: dict[Any, Any], name: str, found: LoadedFile, depth: int) -> None:
    groups, states = value.get("param_groups"), value.get("state")
    if isinstance(groups, list) and isinstance(states, dict):
        if all(isinstance(each, dict) and "params" in each for each in groups):
            found.optimizers.append(_optimizer(name, groups, states))
        return
    tensors = digests(value.items())
    if tensors and 2 * len(tensors) > len(value):
        found.modules.append(SavedModule(name, tensors))
        return
    inner = [each for each in value.items() if isinstance(each[1], dict)]
    if depth and not any(each for _, each in inner):
        numbers = {key: float(each) for key, each in value.items() if is_number(each)}
        if numbers:
            found.numbers.append(SavedNumbers(name, frozenset(map(str, value)), numbers))
    elif depth < MOST_DEPTH:
        for key, each in inner:
            _walk(each, f"{name}.{key}" if name else str(key), found, depth + 1)


def _optimizer(name: str, groups: list[Any], states: dict[Any, Any]) -> SavedOptimizer:
    return SavedOptimizer(
        name,
        [settings_of(each) for each in groups],
        [len(each["params"]) for each in groups],
        {
            key: digests(each.items())
            for key, each in list(states.items())[:MOST_TENSORS]
            if isinstance(each, dict)
        },
    )


def settings_of(group: dict[str, Any]) -> dict[str, Any]:
    """The numbers of a group of parameters by which it is to be told apart."""
    return {
        key: each
        for key, each in group.items()
        if is_number(each) or (isinstance(each, (tuple, list)) and all(map(is_number, each)))
        if key != "params"
    }


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def digests(items: Iterable[tuple[Any, Any]]) -> dict[str, Digest]:
    found: dict[str, Digest] = {}
    for name, tensor in items:
        if type(tensor) in (torch.Tensor, nn.Parameter) and len(found) < MOST_TENSORS:
            digest = _digest(tensor)
            if digest is not None:
                found[str(name)] = digest
    return found


def _digest(tensor: torch.Tensor) -> Digest | None:
    if tensor.layout is not torch.strided or tensor.is_meta or tensor.is_complex():
        return None
    row = tensor.detach()
    if not row.numel():
        return Digest(tuple(tensor.shape), tensor.dtype, ())
    while row.dim() > 1:
        row = row[0]
    first = [row.item()] if row.dim() == 0 else row[:FIRST].tolist()
    return Digest(tuple(tensor.shape), tensor.dtype, tuple(map(float, first)))
