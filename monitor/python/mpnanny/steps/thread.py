"""Which thread a run is heard from: the one place that decides it.

torch's functions and a model's hooks are heard in every thread of the process, and other threads
may train other models, ask this one for an evaluation, or run parts of its step. A run hears one
thread at a time: the one that opened the step that is under way, and the threads of autograd that
work for a backward pass of that thread. What any other thread does touches nothing of the step.

A step goes to another thread where that brings it further than it has come (forward pass, backward
pass, update) or where its thread is no more: a program may open a block here and train in a pool,
run parts of a forward pass in threads and derive it here, make a nanny here and train elsewhere.
Between two steps whoever opens the next one has it. That something belongs to this training, and
not to another one, is for the caller to say.

A backward pass writes gradients without Python's lock. While one that may reach the model's weights
is under way in another thread, no gradient of them is read.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any, TypeVar

import torch

from ..base.notes import harmless
from .reading import graph_task_id

# How far a step has come.
OPENED, FORWARD, BACKWARD, UPDATE = range(4)

_KEY = "mpnanny.thread"  # of what torch hands on from a thread to autograd's threads
_stash: Any = getattr(torch._C, "_stash_obj_in_tls", None)
_has: Any = getattr(torch._C, "_is_key_in_tls", None)
_get: Any = getattr(torch._C, "_get_obj_in_tls", None)

_F = TypeVar("_F", bound=Callable[..., Any])


def backward_begins_here() -> None:
    """The thread that calls is about to run a backward pass."""
    if _stash is not None and graph_task_id() == -1:
        _stash(_KEY, get_ident())


def here() -> int:
    """The thread that calls; in a thread of autograd's the one whose backward pass it works for."""
    if graph_task_id() != -1 and _get is not None and _has(_KEY):
        return int(_get(_KEY))
    return get_ident()


def is_alive(ident: int) -> bool:
    return any(each.ident == ident for each in threading.enumerate())


class StepThread:
    """Of one run. `ident` is for hooks, which compare it at each call.

    Whoever does something with the step is inside meanwhile, so that a thread that takes it over,
    or closes the run, finds nobody there. A thread that has nothing to do with the step never waits
    for that.
    """

    __slots__ = (
        "_depth",
        "_inside",
        "_lock",
        "_opener",
        "_passes",
        "_stage",
        "deriving",
        "elsewhere",
        "ident",
    )

    def __init__(self) -> None:
        self.ident = self._opener = get_ident()
        self._lock = threading.RLock()
        self._inside = 0  # the thread that is
        self._depth = 0  # how often
        self.elsewhere: set[int] = set()  # layers that have run in training without being heard
        self.deriving: set[int] = set()  # threads that are in a gradient of torch.func
        self._stage = OPENED
        self._passes: dict[int, list[bool]] = {}  # by thread, those within another one last

    def is_here(self) -> bool:
        """Whether the calling thread has the step, or had the last one."""
        return self.ident == here()

    def may_end(self) -> bool:
        """Whether the calling thread may end the step: it has it, or opened it, or nobody has."""
        me = here()
        return me in (self.ident, self._opener) or not is_alive(self.ident)

    def is_opener(self) -> bool:
        return self._opener == here()

    # --- one at a time ---

    def enter(self, patience: float = -1) -> bool:
        """Waits until no other thread is inside, at most for `patience` seconds. Whether leave() is
        to be called: not where that took too long, nor in a thread of autograd's that works for the
        one that is inside, which waits for it.
        """
        if self._inside and graph_task_id() != -1 and self._inside == here() != get_ident():
            return False
        if not self._lock.acquire(timeout=patience):
            return False
        self._inside = get_ident()
        self._depth += 1
        return True

    def leave(self) -> None:
        self._depth -= 1
        if not self._depth:
            self._inside = 0
        self._lock.release()

    # --- who has the step ---

    def opens(self) -> None:
        """The calling thread opens a step."""
        self.ident = self._opener = here()
        self._stage = OPENED

    def joins(self, stage: int, is_open: bool) -> bool:
        """Whether what the calling thread is about to do, which brings the training to `stage`,
        belongs to the step that is under way or, without `is_open`, to the next one.
        """
        me = here()
        if me != self.ident:
            if is_open and not self._is_further(stage, me) and is_alive(self.ident):
                return False
            self.ident = me
        if is_open:
            self.reaches(stage)
        return True

    def _is_further(self, stage: int, me: int) -> bool:
        return stage > self._stage or (stage == self._stage and me == self._opener)

    def reaches(self, stage: int) -> None:
        self._stage = max(self._stage, stage)

    # --- backward passes ---

    def pass_begins(self, may_write: bool) -> None:
        """In the calling thread. `may_write`: gradients of the model. Waits until no other thread
        reads them.
        """
        inside = may_write and self.enter()
        self._passes.setdefault(here(), []).append(may_write)
        if inside:
            self.leave()

    def pass_ends(self) -> None:
        me = here()
        passes = self._passes.get(me)
        if passes:
            passes.pop()
        if not passes:
            self._passes.pop(me, None)

    @contextmanager
    def reading(self) -> Iterator[bool]:
        """Whether gradients of the model may be read. While that goes on nobody begins to write
        them.
        """
        inside = self.enter()
        try:
            yield self.is_alone()
        finally:
            if inside:
                self.leave()

    def is_alone(self) -> bool:
        """Whether no other thread writes gradients of the model now."""
        me = here()
        return not any(thread != me and any(each) for thread, each in list(self._passes.items()))


def alone(method: _F) -> _F:
    """harmless(), and inside of StepThread."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        thread = self.state.thread
        inside = thread.enter()
        try:
            return method(self, *args, **kwargs)
        finally:
            if inside:
                thread.leave()

    return harmless(call)  # type: ignore[return-value]


def of_step(method: _F) -> _F:
    """alone(), and nothing where another thread than the step's calls."""

    @alone
    @functools.wraps(method)
    def inside(self: Any, *args: Any, **kwargs: Any) -> Any:
        # Again: while it waited another thread may have taken the step.
        return method(self, *args, **kwargs) if self.state.thread.is_here() else None

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return inside(self, *args, **kwargs) if self.state.thread.is_here() else None

    return call  # type: ignore[return-value]
