"""Parameters of modules that others have taken the place of, and where: an attribute that was set,
a module that was put in for another one, load_state_dict(assign=True). Of the whole process,
because a program builds its model before a training begins.

torch tells of each parameter and module that a module gets; only where it had one of that name
already something is kept.
"""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

from ..operators.places import users_line

MOST = 4096  # the newest

_Pair = tuple["weakref.ref[torch.Tensor]", "weakref.ref[torch.Tensor]", str]
_pairs: deque[_Pair] = deque(maxlen=MOST)  # what was there, what is there now, file:line
_count = 0
_handles: list[Any] = []
_told: set[int] = set()  # ids of parameters


def begin() -> None:
    if not _handles:
        _handles.append(register_module_parameter_registration_hook(_parameter))
        _handles.append(register_module_module_registration_hook(_module))


def end() -> None:
    while _handles:
        _handles.pop().remove()


def count() -> int:
    """Replacements so far."""
    return _count


def tell(parameters: Iterable[torch.Tensor | None]) -> None:
    """It was said of `parameters` that no optimizer holds them since they were put in place."""
    _told.update(id(each) for each in parameters if each is not None)


def is_told(parameter: torch.Tensor) -> bool:
    return id(parameter) in _told


def earlier(parameter: torch.Tensor) -> Iterable[tuple[torch.Tensor, str]]:
    """Living parameters in whose place it is, the newest first, and where (file:line, or "") each
    was replaced.
    """
    wanted = parameter
    for old, new, place in reversed(_pairs):
        if new() is wanted:
            known = old()
            if known is None:
                return
            yield known, place
            wanted = known


def swapped(old: torch.Tensor | None, new: torch.Tensor | None) -> None:
    """Nothing that goes wrong here gets to the program."""
    global _count
    if isinstance(old, nn.Parameter) and isinstance(new, nn.Parameter) and new is not old:
        file, line = users_line()
        _pairs.append((weakref.ref(old), weakref.ref(new), f"{file}:{line}" if file else ""))
        _count += 1


def _parameter(module: nn.Module, name: str, parameter: Any) -> None:
    with contextlib.suppress(Exception):
        old = module._parameters.get(name)
        if old is not None:
            swapped(old, parameter)


def _module(module: nn.Module, name: str, new: Any) -> None:
    with contextlib.suppress(Exception):
        old = module._modules.get(name)
        if old is None or old is new or not isinstance(new, nn.Module):
            return
        now = dict(new.named_parameters())
        for key, each in old.named_parameters():
            swapped(each, now.get(key))
