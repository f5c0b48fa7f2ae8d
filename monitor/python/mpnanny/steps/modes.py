"""The dispatch modes of a run's steps: when they are on torch's stack, and when they leave it."""

from __future__ import annotations

import threading
from typing import Any

from torch import nn

from ..model.selection import Watched
from ..operators.modes import ModeStack, StepMode
from .listeners import StepListener
from .step import OpenStep


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
