"""What a program computes before its first training step: tables, schedules, data.

Under `mpnanny run` a shadow begins when torch has been imported (_launch/sitecustomize.py), else
where the program asks for it (`mpnanny.follow_from_here()`). The run's first shadow step goes on
with it, so that an error in a table is followed to the loss. It ends by itself where it would cost
too much, or where torch.compile or a dispatch mode of the program begins. One in a process.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import torch

from ..hooks import taps
from ..hooks.leaving import leave
from ..operators.modes import ModeStack, lies_above
from ..operators.places import pass_through
from .changes import Changes
from .memory import allowance
from .step import ShadowStep

MOST_SECONDS = 2.0  # of the shadow itself
MOST_ELEMENTS = 1 << 22  # of a tensor: larger ones are data or weights, which take long
MOST_BYTES = 1 << 30

pass_through(__file__)


class _Listener(taps.SomeCalls):
    """Minds nothing but torch.compile and modes of the program."""

    def __init__(self, prelude: Prelude) -> None:
        self._prelude = prelude

    def heard_compile_begins(self) -> None:
        if self._prelude.is_here():
            end()

    def heard_mode_enters(self, mode: Any) -> None:
        if self._prelude.is_here() and lies_above(mode):
            end()


class Prelude:
    """`modules`: names by id, `names`: of parameters and buffers by their memory; the session that
    goes on with it fills them in.
    """

    def __init__(self) -> None:
        self.modules: dict[int, str] = {}
        self.names: dict[int, str] = {}
        self.changes = Changes(self.names.get)
        self.errors: list[Exception] = []
        self._thread = threading.get_ident()
        self._listener: Any = _Listener(self)
        bytes_allowed = min(MOST_BYTES, allowance())
        self.step = ShadowStep(
            0, self.modules, self.changes, None, self.errors.append, bytes_allowed
        )
        self.step.mode.limit(MOST_SECONDS, MOST_ELEMENTS)

    def begin(self) -> bool:
        """Whether it is on torch's stack now."""
        if not ModeStack(leave).push(self.step.mode):
            return False
        taps.add(self._listener)
        return True

    def hand_over(self) -> bool:
        """Whether the caller can go on with `step`, which is on its thread's stack."""
        taps.remove(self._listener)
        mode = self.step.mode
        if self.is_here() and mode.looking and not self.errors:
            mode.limit()
            return True
        self.end()
        return False

    def end(self) -> None:
        """Nothing is looked at any more; what was found until then is known to `step`."""
        taps.remove(self._listener)
        mode = self.step.mode
        if self.is_here():
            mode.end()
        else:
            mode.give_up()
        ModeStack(leave).leave(mode, self._thread)

    def is_here(self) -> bool:
        """Whether the thread that calls is the one that it looks at."""
        return self._thread == threading.get_ident()


_current: Prelude | None = None


def begin() -> None:
    """The program's next operators are the first ones that are followed."""
    global _current
    if _current is None and torch.utils.data.get_worker_info() is None:
        prelude = Prelude()
        if prelude.begin():
            _current = prelude
            os.register_at_fork(after_in_child=end)


def follow_from_here() -> None:
    """What the program computes from this line on is followed until a nanny takes over, as under
    `mpnanny run`: call it before the data and the tables are made. It ends by itself after 2
    seconds of its own time. Bits stay the same.
    """
    if "MPNANNY_RUN" not in os.environ:  # else it began with torch
        begin()


def operators() -> int:
    """How many the program has run under the prelude that is under way."""
    return 0 if _current is None else _current.step.mode.operators


def take() -> Prelude | None:
    """The prelude that is under way, for the one who goes on with it or ends it."""
    global _current
    prelude, _current = _current, None
    return prelude


def end() -> None:
    """No prelude any more."""
    prelude = take()
    if prelude is not None:
        prelude.end()
