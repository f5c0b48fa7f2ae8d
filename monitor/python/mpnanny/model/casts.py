"""Modules whose parameters a call has cast to a 16-bit format (half(), bfloat16(), to(), type()),
and where. Of the whole process; only calls that change a type are kept.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ..operators.places import users_line

METHODS = ("half", "bfloat16", "to", "type")
SIXTEEN = (torch.float16, torch.bfloat16)
MOST = 64


@dataclass(slots=True)
class _Cast:
    module: weakref.ref[nn.Module]
    place: str  # file:line


_newest: list[_Cast] = []
_count = 0


def count() -> int:
    """Casts so far: what a run asks at each step."""
    return _count


def types_of(module: Any) -> list[torch.dtype]:
    """Of its parameters, in their order."""
    with contextlib.suppress(Exception):
        return [each.dtype for each in module.parameters()]
    return []


def heard_cast(module: Any, before: list[torch.dtype]) -> None:
    """A call that may cast has ended. Nothing that goes wrong here gets to the program."""
    global _count
    with contextlib.suppress(Exception):
        now = types_of(module)
        if any(new in SIXTEEN and new is not old for old, new in zip(before, now, strict=False)):
            file, line = users_line()
            _newest.append(_Cast(weakref.ref(module), f"{file}:{line}" if file else ""))
            del _newest[:-MOST]
            _count += 1


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
