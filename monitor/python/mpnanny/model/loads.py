"""What modules held before they took a state (load_state_dict), and where that was called. Of the
whole process, because a program loads weights before a training begins.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from ..operators.modes import others_on
from ..operators.places import is_users
from .samples import is_readable, row

NUMBERS = 64  # of a parameter
MOST_PARAMETERS = 512  # of a module
MOST_KEPT = 2  # loads of a module whose values are kept; a target network loads in every step


@dataclass(slots=True)
class Load:
    before: dict[int, torch.Tensor]  # by the parameter's id: NUMBERS of its numbers


@dataclass(slots=True)
class _Loads:
    kept: list[Load]
    place: str = ""  # file:line of the newest


_loads: weakref.WeakKeyDictionary[nn.Module, _Loads] = weakref.WeakKeyDictionary()
_count = 0
_changes = threading.RLock()  # of these, by any thread that loads


def count() -> int:
    """Loads so far."""
    return _count


def module_loads(module: nn.Module) -> None:
    """It is about to take a state. Nothing that goes wrong here gets to the program."""
    global _count
    with contextlib.suppress(Exception), torch.no_grad():
        if others_on():
            return
        with _changes:
            _count += 1
            known = _loads.setdefault(module, _Loads([]))
        known.place = _place()
        if len(known.kept) >= MOST_KEPT:
            return
        found: dict[int, torch.Tensor] = {}
        for each in module.parameters():
            if len(found) < MOST_PARAMETERS and is_readable(each):
                found[id(each)] = row(each, NUMBERS).clone()
        known.kept.append(Load(found))


def before_loads(parameters: Sequence[torch.Tensor]) -> Iterable[list[torch.Tensor]]:
    """What all of `parameters` held before a load: for each load a row of each."""
    with _changes:
        loads = list(_loads.values())
    for known in loads:
        for load in known.kept:
            if all(id(each) in load.before for each in parameters):
                yield [load.before[id(each)] for each in parameters]


def place_of_load(parameters: Sequence[torch.Tensor]) -> str:
    """file:line of the newest load of a module that has one of `parameters`; "" if none did."""
    ids = set(map(id, parameters))
    with _changes:
        loads = list(_loads.items())
    places = [
        known.place
        for module, known in loads
        if any(id(each) in ids for each in module.parameters())
    ]
    return places[-1] if places else ""


def _place() -> str:
    frame = sys._getframe(1)
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            return f"{os.path.abspath(frame.f_code.co_filename)}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return ""
