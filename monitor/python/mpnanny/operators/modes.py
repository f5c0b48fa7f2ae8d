"""torch's stack of dispatch modes: the only code that puts modes of ours there and takes them off.

Modes of ours are only put on a stack that holds none of the program's; what the program puts there
afterwards lies above them and is put back when they go.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils import _python_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

from ..model.selection import Watched
from ..steps.listeners import StepListener
from ..steps.step import OpenStep

_push: Any = getattr(_python_dispatch, "_push_on_torch_dispatch_stack", None)
_pop: Any = getattr(torch._C, "_pop_torch_dispatch_stack", None)
_length: Any = getattr(torch._C, "_len_torch_dispatch_stack", None)
_at: Any = getattr(torch._C, "_get_dispatch_stack_at", None)


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


class StepMode(TorchDispatchMode):
    """A mode that is made for one step, and only looks."""

    looking = True  # False: from now on it only passes on

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # a wrapper that imports Dynamo, which is never on together with this mode

    def refused(self, why: str) -> None:
        """It was not put on the stack."""


class StepModes(StepListener):
    """The modes of one run's open step, all in the same brackets: a step block; without blocks from
    the model's forward pass to the end of the backward pass, and the optimizer's step. Of a step
    that has none all of this is one comparison. The modes come from other parts, which call use()
    in their step_begins().
    """

    name = "the stack of dispatch modes"

    def __init__(self, stack: ModeStack) -> None:
        self._stack = stack
        self._modes: list[StepMode] = []
        self._region = ""  # why they are on the stack: block | forward | optimizer
        self._thread = 0
        self._explicit = False  # the open step is a block

    def use(self, mode: StepMode, step: OpenStep) -> None:
        """`step`, which begins, runs under `mode`, above those that were given before."""
        self._modes.append(mode)
        self._explicit = step.explicit
        if not self._region:
            self.enter("block" if step.explicit else "forward")
        elif not self._stack.push(mode):
            mode.refused(self._stack.refusal())

    def enter(self, region: str) -> None:
        if not self._modes or self._region or (self._explicit and region == "forward"):
            return
        why = self._stack.refusal()
        if why:
            for mode in self._modes:
                mode.refused(why)
            return
        for mode in self._modes:
            self._stack.push(mode)
        self._region = region
        self._thread = threading.get_ident()

    def leave(self, region: str) -> None:
        if self._region and self._region == region:
            self.off()

    def off(self) -> None:
        """Not on the stack any more; the step may put them there again."""
        region, self._region = self._region, ""
        if not region:
            return
        here = self._thread == threading.get_ident()
        for mode in reversed(self._modes):
            if not here or not self._stack.holds(mode):
                mode.looking = False  # another thread's: it only passes on from here
            self._stack.leave(mode, self._thread)

    def _end(self) -> None:
        if self._modes:
            self.off()
            for mode in self._modes:
                mode.looking = False
            self._modes.clear()

    def step_moved(self, step: OpenStep) -> None:
        """What the thread before has not looked at is not known: the rest of the step is not."""
        self._end()

    def model_runs(self, model: nn.Module, args: Any, kwargs: Any) -> None:
        self.enter("forward")

    def model_evaluates(self) -> None:
        self.leave("forward")

    def model_ran(self, output: Any, failed: bool) -> None:
        if failed:
            self.leave("forward")

    def backward_begins(self, step: OpenStep, losses: Any) -> None:
        self.enter("forward")

    def backward_ended(self, step: OpenStep) -> None:
        self.leave("forward")

    def optimizer_begins(
        self, step: OpenStep, optimizer: Any, held: Watched, closure: bool
    ) -> None:
        self.enter("optimizer")

    def optimizer_ended(self, step: OpenStep, optimizer: Any, held: Watched) -> None:
        self.leave("optimizer")

    def block_left(self, step: OpenStep) -> None:
        self.leave("block")

    def step_ends(self, step: OpenStep) -> None:
        self._end()

    def run_ends(self) -> None:
        self._end()

    def forked(self) -> None:
        self._end()
