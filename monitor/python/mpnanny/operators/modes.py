"""torch's stack of dispatch modes: the only code that puts modes of ours there and takes them off.

Modes of ours are only put on a stack that holds none of the program's; what the program puts there
afterwards lies above them and is put back when they go.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _python_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

_push: Any = getattr(_python_dispatch, "_push_on_torch_dispatch_stack", None)
_pop: Any = getattr(torch._C, "_pop_torch_dispatch_stack", None)
_length: Any = getattr(torch._C, "_len_torch_dispatch_stack", None)
_at: Any = getattr(torch._C, "_get_dispatch_stack_at", None)

# Context in which no mode of this thread sees what runs.
without_modes: Any = _python_dispatch._disable_current_modes

OTHERS_ON = "a dispatch mode of the program is on"

# Of all runs: what else is on a stack is the program's.
_ours: weakref.WeakSet[TorchDispatchMode] = weakref.WeakSet()


def compiles() -> bool:
    """Whether torch.compile is used in this process: what it has made cannot be traced, and what it
    makes under a mode is made otherwise, or not at all.
    """
    frame: Any = sys.modules.get("torch._dynamo.eval_frame")
    utils: Any = sys.modules.get("torch._dynamo.utils")
    backends = getattr(frame, "cached_backends", None) or {}  # None: what is not to be compiled
    return any(each is not None for each in backends.values()) or bool(
        utils and utils.counters.get("frames", {}).get("total", 0)
    )


def others_on() -> bool:
    """Whether a mode of the program is on this thread's stack; one of ours that asks while it
    handles an operator sees what lies below it.
    """
    return any(_at(index) not in _ours for index in range(_length()))


def lies_above(mode: TorchDispatchMode) -> bool:
    """Whether `mode`, which the program puts on the stack, comes between it and ours. Torch's own
    (fake tensors, tracing) lie below any other; activation checkpointing only hands out again
    what it has seen.
    """
    own = getattr(mode, "_mode_key", None) is not None
    return not own and type(mode).__module__ != "torch.utils.checkpoint"


def holds(mode: TorchDispatchMode) -> bool:
    return any(_at(index) is mode for index in range(_length()))


def remove(mode: TorchDispatchMode) -> None:
    """Takes `mode` off this thread's stack, wherever in it; what lies above stays."""
    if not holds(mode):
        return
    above = []
    while (top := _pop(None)) is not mode:
        above.append(top)
    for other in reversed(above):
        _push(other)


class ModeStack:
    """The stack of the thread that calls. Modes may be of any kind and go in any order. `eager`:
    what torch.compile has made runs eagerly while the mode is on. `there(mode, thread)`: takes a
    mode off the stack of another thread, as soon as that can be (hooks/leaving.py).
    """

    def __init__(self, there: Callable[[TorchDispatchMode, int], None] | None = None) -> None:
        self._there = there

    def unusable(self, eager: bool = False) -> str:
        """Why no mode can be used in this process, in words; "" if one can."""
        if _push is None or _pop is None or _length is None or _at is None:
            return "this torch has no dispatch modes"
        return "torch.compile is in use" if not eager and compiles() else ""

    def refusal(self, eager: bool = False) -> str:
        """Why no mode can be put there now, in words; "" if one can."""
        why = self.unusable(eager)
        if why:
            return why
        return OTHERS_ON if others_on() else ""

    def push(self, mode: TorchDispatchMode, eager: bool = False) -> bool:
        """Puts `mode` on top of the stack, if that can be."""
        if self.refusal(eager):
            return False
        _ours.add(mode)
        _push(mode)
        return True

    def holds(self, mode: TorchDispatchMode) -> bool:
        return holds(mode)

    def leave(self, mode: TorchDispatchMode, thread: int) -> None:
        """Takes `mode` off the stack of `thread`; if another thread calls, as soon as that one is
        heard. Until then it must only pass on.
        """
        if thread == threading.get_ident():
            remove(mode)
            return
        if self._there is not None:
            self._there(mode, thread)

    def remove(self, mode: TorchDispatchMode) -> None:
        remove(mode)


class _OwnWork(threading.local):
    depth = 0


_own_work = _OwnWork()


@contextlib.contextmanager
def own_work() -> Iterator[None]:
    """What runs inside, in this thread, is the monitor's own: its modes pass it on unseen. Where
    one of them calls an operator it is off anyway; a hook runs while it is on.
    """
    _own_work.depth += 1
    try:
        yield
    finally:
        _own_work.depth -= 1


def is_own_work() -> bool:
    return _own_work.depth > 0


class StepMode(TorchDispatchMode):
    """A mode that is made for one step, and only looks."""

    looking = True  # False: from now on it only passes on

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # a wrapper that imports Dynamo, which is never on together with this mode

    def refused(self, why: str) -> None:
        """It was not put on the stack."""
