"""What files of the program have held when it loaded them: states that were saved together, and
what the training that has written such a file held and did not save.

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
class States:
    """What a file holds."""

    modules: list[SavedModule] = field(default_factory=list)
    optimizers: list[SavedOptimizer] = field(default_factory=list)
    numbers: list[SavedNumbers] = field(default_factory=list)
    # The states themselves: of modules, and of optimizers by the parameter's number. Only of what
    # is being saved.
    tensors: list[dict[Any, Any]] = field(default_factory=list)
    moments: list[dict[Any, Any]] = field(default_factory=list)


@dataclass(slots=True)
class Unsaved(States):
    """What a training held when it wrote a file: `modules` are in that file, the rest is not."""

    owners: list[weakref.ref[Any]] = field(default_factory=list)  # of `numbers`, one each
    losses: list[float] = field(default_factory=list)  # the newest before it
    file: str = ""  # where it was written
    line: int = 0


@dataclass(slots=True)
class LoadedFile(States):
    unsaved: Unsaved | None = None  # where this process has written it
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


@dataclass(slots=True)
class LeftOut:
    """States that a module did not take although it was offered them under a longer or shorter
    name: by its own name, with that other name and the digest.
    """

    module: weakref.ref[nn.Module]
    names: dict[str, tuple[str, Digest]]
    file: str
    line: int
    judged: bool = False


_newest: list[LoadedFile] = []
_unsaved: list[Unsaved] = []
_left_out: list[LeftOut] = []
_offered: dict[int, States] = {}  # the newest file of a thread
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


def states_in(content: Any, whole: bool) -> States:
    """What torch.save() is given, or torch.load() returns. `whole`: with the tensors."""
    found = States()
    if isinstance(content, dict):
        _walk(content, "", found, 0)
    if not whole:
        found.tensors, found.moments = [], []  # which must not live longer for it
    return found


def wrote(unsaved: Unsaved) -> None:
    """A training has written a file, which holds all but that."""
    _unsaved.append(unsaved)
    del _unsaved[:-MOST_FILES]


def _written_here(states: States) -> Unsaved | None:
    """What was held when a file with these modules was written, where that was in this process."""
    tensors = [each.tensors for each in states.modules]
    for unsaved in reversed(_unsaved):
        if any(each.tensors in tensors for each in unsaved.modules):
            return unsaved
    return None


def _read(content: Any) -> None:
    global _count
    states = states_in(content, whole=False)
    if states.modules:
        _offered[get_ident()] = states
    unsaved = _written_here(states)
    alone = not (states.optimizers or states.numbers or len(states.modules) > 1)
    if not states.modules or (alone and unsaved is None):
        return  # weights alone
    found = LoadedFile(states.modules, states.optimizers, states.numbers, unsaved=unsaved)
    _place(found)
    _newest.append(found)
    del _newest[:-MOST_FILES]
    _count += 1


def heard_state_loaded(taker: Any, given: Any) -> None:
    """A module or an optimizer has taken the state `given`, mostly of its thread's newest file."""
    global _loads
    _loads += 1
    with contextlib.suppress(Exception), torch.no_grad():
        if not issubclass(type(taker), nn.Module):
            _optimizers[taker] = OptimizerLoad(*users_line(), _types_of(given))
            return
        if own := [each for each in _newest if each.thread == get_ident()]:
            _place(own[-1])
        if not others_on():
            _look_for_left_out(taker, given)


def left_out(modules: Iterable[nn.Module]) -> list[LeftOut]:
    """Loads of one of `modules` that were not judged yet."""
    if not _left_out:
        return []
    ids = set(map(id, modules))
    return [each for each in _left_out if not each.judged and id(each.module()) in ids]


def _look_for_left_out(taker: nn.Module, given: dict[str, Any]) -> None:
    own = dict(taker.named_parameters()) | dict(taker.named_buffers())
    got = {name: each for name, each in given.items() if name in own}
    file = _offered.get(get_ident())
    offers = [each.tensors for each in file.modules] if file is not None else []
    if len(got) < len(given):
        offers.append(digests((name, each) for name, each in given.items() if name not in own))
    # A file with an average beside the model has each name twice, once as it is.
    exact = {name for offer in offers for name in offer}
    others = {name: each for name, each in own.items() if name not in exact}
    for offer in offers:
        names = _renamed(others, {name: each for name, each in offer.items() if name not in own})
        took = digests((name, got[name]) for name in names if name in got)
        # A program that took some of what was renamed in this way knows it, and left the rest out.
        known = {
            _difference(name, other)
            for name, (other, digest) in names.items()
            if name in took and took[name].is_like(digest)
        }
        names = {n: e for n, e in names.items() if _difference(n, e[0]) not in known}
        if names:
            _left_out.append(LeftOut(weakref.ref(taker), names, *users_line()))
            del _left_out[:-MOST_FILES]
            return


def _difference(name: str, other: str) -> str:
    """What the longer one of two names has before the shorter one."""
    longer, shorter = sorted((name, other), key=len, reverse=True)
    return longer[: len(longer) - len(shorter)]


def _renamed(
    own: dict[str, torch.Tensor], offer: dict[str, Digest]
) -> dict[str, tuple[str, Digest]]:
    """What `own` has under a name that is the end of one of `offer`, or has one as its end."""
    ends: dict[str, list[str]] = {}
    for name in offer:
        for end in _ends(name):
            ends.setdefault(end, []).append(name)
    found: dict[str, tuple[str, Digest]] = {}
    for name, tensor in own.items():
        known = ends.get(name, []) or [end for end in _ends(name) if end in offer]
        if len(known) == 1 and offer[known[0]].shape == tensor.shape:
            found[name] = known[0], offer[known[0]]
    return found


def _ends(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[at:]) for at in range(1, len(parts) - 1)]


def newest_load(optimizer: Any) -> OptimizerLoad | None:
    """Of the state that it has taken last; None if it has not."""
    return _optimizers.get(optimizer)


def _types_of(given: Any) -> dict[str, set[torch.dtype]]:
    """The types of an optimizer's states, by name."""
    found: dict[str, set[torch.dtype]] = {}
    states = given.get("state") if isinstance(given, dict) else None
    for state in states.values() if isinstance(states, dict) else ():
        for name, each in state.items() if isinstance(state, dict) else ():
            if isinstance(each, torch.Tensor):
                found.setdefault(str(name), set()).add(each.dtype)
    return found


def _place(found: LoadedFile) -> None:
    file, line = users_line()
    if line:
        found.file, found.line = file, line


def _walk(value: dict[Any, Any], name: str, found: States, depth: int) -> None:
    groups, states = value.get("param_groups"), value.get("state")
    if isinstance(groups, list) and isinstance(states, dict):
        if all(isinstance(each, dict) and "params" in each for each in groups):
            found.optimizers.append(saved_optimizer(name, groups, states))
            found.moments.append(states)
        return
    tensors = digests(value.items())
    if tensors and 2 * len(tensors) > len(value):
        found.modules.append(SavedModule(name, tensors))
        found.tensors.append(value)
        return
    inner = [each for each in value.items() if isinstance(each[1], dict)]
    if depth and not any(each for _, each in inner):
        numbers = saved_numbers(name, value)
        if numbers.numbers:
            found.numbers.append(numbers)
    elif depth < MOST_DEPTH:
        for key, each in inner:
            _walk(each, f"{name}.{key}" if name else str(key), found, depth + 1)


def saved_optimizer(name: str, groups: list[Any], states: dict[Any, Any]) -> SavedOptimizer:
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


def saved_numbers(name: str, state: dict[Any, Any]) -> SavedNumbers:
    numbers = {str(key): float(each) for key, each in state.items() if is_number(each)}
    return SavedNumbers(name, frozenset(map(str, state)), numbers)


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
