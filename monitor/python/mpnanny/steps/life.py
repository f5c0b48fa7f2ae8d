"""The life of a step: when it begins, what ends it, and what the core gets of it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import torch

from ..base.alerts import AlertTuple
from ..model.unmoved import Unmoved
from .context import LoopContext, RunContext
from .late_steps import DeviceSteps
from .step import OpenStep, to_float
from .thread import FORWARD, alone

# A step without an optimizer that is known (a hand-written update) ends after so many forward
# passes, one with an optimizer (accumulation) much later: what it has gathered must not grow.
FORWARDS_WITHOUT_OPTIMIZER = 256
FORWARDS_PER_STEP = 8192


class Steps:
    """Opens and ends the steps of one run. Every public method is harmless to training.

    `follow()` brings the model up to date. `report(step, alerts)` takes what the core says of a
    step that it has ended. `stop(why)` is called when the core cannot record any more.
    """

    def __init__(
        self,
        run: RunContext,
        loop: LoopContext,
        unmoved: Unmoved,
        device: DeviceSteps,
        follow: Callable[[], None],
        report: Callable[[OpenStep, list[AlertTuple]], None],
        stop: Callable[[str], None],
    ) -> None:
        self.state = run.state
        self.notes = run.notes
        self._core = run.core
        self._model = run.model
        self._events = run.events
        self._optimizers = loop.optimizers
        self._by_hand = loop.by_hand
        self._left = loop.left
        self._unmoved = unmoved
        self._device = device
        self._follow = follow
        self._report = report
        self._stop = stop
        self._offset = 0  # of the numbers that blocks are given
        self._told_mean = False

    # --- blocks ---

    @alone
    def enter_block(self, number: int) -> None:
        self.state.blocks_used = True
        self.finish()
        self.state.end_reason = "closed"
        self._begin(int(number), explicit=True)

    @alone
    def leave_block(self, failed: bool) -> None:
        if failed:
            self.state.end_reason = "exception"
        step = self.state.open
        if step is None or not (self.state.thread.is_here() or self.state.thread.is_opener()):
            return
        step.ended = time.perf_counter()
        self._events.block_left(step)
        if failed or (step.optimizer_stepped and not step.awaits_update):
            self.finish()
        elif not self.state.on_device:
            # The optimizer may follow outside the block; until then the ring has the step. (Of a
            # device the core is still at an earlier one.)
            self._core.publish(*self._end_arguments(step))

    @alone
    def log(self, loss: Any, lr: Any) -> None:
        step = self.state.open
        if step is None:
            return
        if loss is not None:
            step.logged_loss = to_float(loss)
            if step.logged_loss is None:
                self.notes.note(
                    "the loss cannot be read: no single number, or on an unknown device"
                )
        if lr is not None:
            step.logged_lr = to_float(lr)

    # --- without blocks ---

    @alone
    def begin_if_needed(self) -> None:
        """Without blocks a step begins when the model, or what follows it, first runs."""
        if self.state.open is None and not self.state.blocks_used:
            self._begin(self.state.number + 1, explicit=False)

    def count_from(self, step: int) -> None:
        """The next step that is counted has this number, if none has been yet."""
        if self.state.number < 0:
            self.state.number = step - 1

    @alone
    def open_missed(self, losses: list[Any]) -> None:
        """Of a step that began before the model was known, only its losses are left: each with the
        number that it was divided by before it was derived.
        """
        self.begin_if_needed()
        step = self.state.open
        if step is None:
            return
        step.backward_heard = True
        step.backwards = self._by_hand.per_step = max(len(losses), 1)
        for loss, divisor in losses:
            step.losses.add([to_float(loss)], divisor)

    @alone
    def end_missed(self) -> None:
        self.finish()

    @alone
    def model_runs(self) -> None:
        step = self.state.open
        if step is not None and (
            step.over or self._left.forward_begins(step) or self._is_over(step)
        ):
            self.finish()
        elif step is not None and not step.explicit:
            known = self._optimizers.main is not None
            if step.forwards >= (FORWARDS_PER_STEP if known else FORWARDS_WITHOUT_OPTIMIZER):
                self.notes.note(
                    f"a step was ended after {step.forwards} forward passes without update"
                )
                self.finish()
        self.begin_if_needed()
        if self.state.open is not None:
            self.state.open.forwards += 1
            self.state.thread.reaches(FORWARD)

    @alone
    def end_if_over(self) -> None:
        """A part of the model runs; where the model runs as a whole model_runs() says so."""
        step = self.state.open
        if step is not None and (step.over or self._is_over(step)):
            self.finish()

    def _is_over(self, step: OpenStep) -> bool:
        return self.state.thread.is_alone() and self._by_hand.is_over(step)

    @alone
    def joins(self, stage: int) -> bool:
        """Whether what the calling thread does, which brings this training to `stage`, is heard;
        the open step may go to this thread by it.
        """
        state, thread = self.state, self.state.thread
        before = thread.ident
        if not thread.joins(stage, state.open is not None):
            return False
        if thread.ident != before:
            self._now_here()
            if state.open is not None:
                self._events.step_moved(state.open)
        return True

    def _now_here(self) -> None:
        """What is known of a thread is not so of the one that calls."""
        self.state.idle = False
        self.state.functional = self.state.thread.ident in self.state.thread.deriving

    # --- beginning and ending ---

    def _begin(self, number: int, explicit: bool) -> None:
        state = self.state
        before = state.thread.ident
        state.thread.opens()
        if state.thread.ident != before:
            self._now_here()
        if not state.steps_done:  # the model as it is when the training begins
            self._follow()
        failure = self._core.failure()
        if failure:
            self._stop(failure)
            return
        if number + self._offset <= state.number:
            self.notes.note("step numbers started again (as in every epoch); they are counted on")
            self._offset = state.number + 1 - number
        state.number = number + self._offset
        state.open = step = OpenStep(state.number, explicit)
        step.losses.usual = self._by_hand.per_step
        sampled = self._device.begin(state.number)
        state.gather = self._device.gather
        state.on_device = state.gather is not None
        state.reader = self._device if state.on_device else self._core
        state.sampling = self._core.begin_step(state.number) if sampled is None else sampled
        self._events.step_begins(step)

    def _end_arguments(self, step: OpenStep) -> tuple[Any, ...]:
        peak = None
        if torch.cuda.is_initialized():
            peak = torch.cuda.max_memory_allocated()
        main = self._optimizers.main
        if main is not None and step.lr is None:
            step.lr = to_float(main.param_groups[0].get("lr"))
        return step.end_arguments(peak)

    def finish(self) -> None:
        """Ends the open step."""
        state = self.state
        step, state.open = state.open, None
        if step is None:
            return
        if state.sampling:  # what no optimizer holds, or none of those that stepped
            self._unmoved.read(self._model.parameters.without(step.read), state.reader)
        state.sampling = False
        if state.end_reason == "closed":
            step.left = step.left or self._left.block_ends(step)
        step.sum_up()
        if step.losses.factor != 1.0 and step.logged_loss is None and not self._told_mean:
            self._told_mean = True
            self.notes.note(
                f"step {step.number} had {step.backwards} backward passes: the loss of such a step"
                f" is their mean; the sum of them is {step.losses.factor:g} times as much"
            )
        self._events.step_ends(step)
        if state.on_device:
            self._device.end(step, self._end_arguments(step))
            self._device.deliver()
            return
        step.settle()
        self.ended(step, self._core.end_step(*self._end_arguments(step)))

    def ended(self, step: OpenStep, new: list[AlertTuple]) -> None:
        """The core has ended `step`, of a device some steps late; `new`: the alerts of it."""
        self.state.steps_done += 1
        self._report(step, new)

    def give_up(self) -> None:
        """At the end, in another thread than the open step's, which may be in the middle of it."""
        self.state.open = None
        self.state.sampling = False

    def finish_last(self) -> None:
        """At the end: a last forward pass without backward was no training, unless it broke, nor
        was a backward pass that no optimizer followed, as of a generator through its critic.
        """
        step = self.state.open
        if step is not None and not step.explicit and not (step.explained or step.read):
            loss = step.loss
            used = self._optimizers.main is None or not self.state.steps_done
            used = used or not isinstance(loss, float) or not math.isfinite(loss)
            if not (step.uses_scaler or (step.backward_heard and used)):
                self.state.open = None
        self.finish()
