"""Modules whose parameters a call has cast to a 16-bit format (half(), bfloat16(), to(), type()),
where, and what their buffers held before. Of the whole process; only calls that change a type are
kept.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ..operators.places import users_line
from . import replaced
from .samples import is_readable, row

METHODS = ("half", "bfloat16", "to", "type")
SIXTEEN = (torch.float16, torch.bfloat16)
MOST = 64
MOST_BUFFERS = 256
NUMBERS = 64  # of a buffer


@dataclass(slots=True)
class Cast:
    module: weakref.ref[nn.Module]
    place: str  # file:line
    buffers: dict[str, tuple[torch.Tensor, torch.dtype]]  # numbers of before, and what they became
    judged: bool = False  # by the run that trains the module


@dataclass(slots=True)
class Held:
    """By a module before a call that may cast it."""

    parameters: list[torch.Tensor]
    types: list[torch.dtype]
    buffers: dict[str, torch.Tensor]


_newest: list[Cast] = []
_count = 0


def count() -> int:
    """Casts so far: what a run asks at each step."""
    return _count


def held_by(module: Any) -> Held:
    with contextlib.suppress(Exception):
        parameters = list(module.parameters())
        return Held(parameters, [each.dtype for each in parameters], dict(module.named_buffers()))
    return Held([], [], {})


def heard_cast(module: Any, before: Held) -> None:
    """A call that may cast has ended. Nothing that goes wrong here gets to the program."""
    global _count
    with contextlib.suppress(Exception), torch.no_grad():
        narrowed = False
        for old, old_type, new in zip(
            before.parameters, before.types, module.parameters(), strict=False
        ):
            narrowed = narrowed or (new.dtype in SIXTEEN and new.dtype is not old_type)
            if new is not old:
                replaced.swapped(old, new)
        now = dict(module.named_buffers())
        buffers = {
            name: (row(each, NUMBERS).clone(), now[name].dtype)
            for name, each in list(before.buffers.items())[:MOST_BUFFERS]
            if each.dtype is torch.float32 and is_readable(each)
            if name in now and now[name].dtype in SIXTEEN
        }
        if narrowed or buffers:
            file, line = users_line()
            place = f"{file}:{line}" if file else ""
            _newest.append(Cast(weakref.ref(module), place, buffers))
            del _newest[:-MOST]
            _count += 1


def of_buffers(modules: Iterable[nn.Module]) -> list[Cast]:
    """Casts of the buffers of one of `modules` that were not judged yet, the oldest first."""
    ids = set(map(id, modules))
    new = [each for each in _newest if each.buffers and not each.judged]
    return [each for each in new if id(each.module()) in ids]


def place_since(before: int, weights: Sequence[torch.Tensor | None]) -> str:
    """file:line of the newest cast after the first `before` of a module that has one of `weights`;
    "" if there was none.
    """
    ids = {id(each) for each in weights if each is not None}
    new = min(_count - before, len(_newest))
    for cast in reversed(_newest[-new:] if new > 0 else ()):
        module = cast.module()
        if module is not None and any(id(each) in ids for each in module.parameters()):
            return cast.place
    return ""


def names_of(weights: Sequence[torch.Tensor]) -> list[str]:
    """What the modules that were cast call them, as far as they are known."""
    ids = {id(each) for each in weights}
    for cast in reversed(_newest):
        module = cast.module()
        if module is None:
            continue
        names = [name for name, each in module.named_parameters() if id(each) in ids]
        if names:
            return names
    return []
