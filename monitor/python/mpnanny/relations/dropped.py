"""Gradients that are set to zero before an optimizer has used them: of several backward passes that
are meant for one update only the last one counts (accumulation with zero_grad() in each pass).

Heard are the backward passes between two steps of an optimizer, in the first steps of a run, and
a few numbers of its gradients around each. It counts where the passes begin at one line, those
before the last left gradients that were gone when the next one began, and what the optimizer gets
is in the direction of the last pass's alone, in each of NEEDED steps. Right are gradients that the
program has taken over before it zeroes them (clipping each sample's), passes at other lines (an
attack), and passes on which another optimizer has stepped (a generator's).
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from ..fp64.findings import DROPPED_GRADIENT, EXCLUDED, Finding
from ..fp64.places import Site, find_call
from ..hooks import taps
from ..model.samples import gradient_numbers, may_read
from ..model.watched import WatchedModel
from ..operators.modes import others_on
from ..steps.listeners import StepListener
from ..steps.reading import graph_task_id
from ..steps.step import OpenStep
from ..steps.thread import StepThread

NEEDED = 3  # steps of the optimizer with several passes, one after another
MOST_STEPS = 16  # that are looked at
MOST_PASSES = 256
SAME_DIRECTION = 0.9999  # cosine


@dataclass(slots=True)
class _Pass:
    place: str  # file:line of backward()
    added: torch.Tensor  # to the gradients
    dropped: bool = False


@dataclass(slots=True)
class _Looked:
    """At an optimizer, so far."""

    passes: list[_Pass] = field(default_factory=list)
    served: bool = False  # another optimizer has stepped since
    steps: int = 0
    since: int = 0  # the first of these, as a training step
    dropped: list[int] = field(default_factory=list)  # passes of a step


class _Ears(taps.SomeCalls):
    def __init__(self, dropped: DroppedGradients) -> None:
        self._dropped = dropped

    def heard_backward(self, losses: Any) -> None:
        self._dropped.safe(self._dropped.pass_begins)

    def heard_backward_ended(self) -> None:
        self._dropped.safe(self._dropped.pass_ends)

    def heard_scaler_step(self, scaler: Any, optimizer: Any) -> None:
        self._dropped.safe(lambda: self._dropped.steps(optimizer, False))

    def heard_optimizer_step(self, optimizer: Any, closure: bool) -> None:
        self._dropped.safe(lambda: self._dropped.steps(optimizer, closure))

    def heard_optimizer_stepped(self, optimizer: Any) -> None:
        self._dropped.safe(lambda: self._dropped.stepped(optimizer))


class DroppedGradients(StepListener):
    """`found(step, findings)` takes what there is to say of the first optimizer of `model`."""

    name = "gradients that are dropped"

    def __init__(
        self,
        model: WatchedModel,
        thread: StepThread,
        found: Callable[[int, list[Finding]], None],
        trouble: Callable[[str, Exception], None],
    ) -> None:
        self._model = model
        self._thread = thread
        self._found = found
        self._trouble = trouble
        self._ears = _Ears(self)
        self._number = 0  # of the training step
        self._passes = 0
        self._optimizer: weakref.ref[Any] | None = None
        self._looked = _Looked()
        self._before_closure: int | None = None  # passes before the step that is under way
        self._before: torch.Tensor | None = None  # gradients when the pass under way began

    # --- the run ---

    def watch_begins(self) -> None:
        taps.add(self._ears)

    def step_begins(self, step: OpenStep) -> None:
        self._number = step.number

    def run_ends(self) -> None:
        self._stop()

    def forked(self) -> None:
        self._stop()

    def _stop(self) -> None:
        taps.remove(self._ears)
        self._looked.passes.clear()

    def safe(self, call: Callable[[], None]) -> None:
        try:
            if not self._thread.is_here() or graph_task_id() != -1:
                return
            if others_on() or not may_read():
                return
            with self._thread.reading() as quiet, torch.no_grad():
                if quiet:
                    call()
        except Exception as error:
            self._stop()
            self._trouble(self.name, error)

    # --- what is heard ---

    def pass_begins(self) -> None:
        self._before = self._numbers()
        passes = self._looked.passes
        if passes and self._before is not None:
            passes[-1].dropped = bool(passes[-1].added.any()) and not self._before.any()

    def pass_ends(self) -> None:
        self._passes += 1
        before, after = self._before, self._numbers()
        self._before = None
        if self._passes > MOST_PASSES:
            self._stop()
        elif before is not None and after is not None and before.shape == after.shape:
            line = find_call(None, {})
            self._looked.passes.append(_Pass(f"{line.file}:{line.line}", after - before))

    def steps(self, optimizer: Any, closure: bool) -> None:
        """`optimizer` is about to step, or a scaler decides whether it does."""
        if closure:  # the last pass comes inside of the step
            self._before_closure = len(self._looked.passes)
        else:
            self._look(optimizer)

    def stepped(self, optimizer: Any) -> None:
        before, self._before_closure = self._before_closure, None
        if before is None:
            return
        if len(self._looked.passes) > before + 1:
            self._stop()  # one that tries several points, each with a gradient of its own
        else:
            self._look(optimizer)

    def _look(self, optimizer: Any) -> None:
        known = None if self._optimizer is None else self._optimizer()
        if known is None:
            own = {id(each) for group in optimizer.param_groups for each in group["params"]}
            if own & self._model.parameter_ids:  # its passes are looked at from now on
                self._optimizer = weakref.ref(optimizer)
            return
        if known is not optimizer:
            self._looked.served = True
            return
        looked = self._looked
        passes, looked.passes = looked.passes, []
        if not passes:  # its scaler was heard already
            return
        looked.steps += 1
        if looked.steps == 1:
            looked.since = self._number
        served, looked.served = looked.served, False
        if not served and (dropped := self._dropped(passes)):
            looked.dropped.append(dropped)
        if len(looked.dropped) != looked.steps or looked.steps == MOST_STEPS:
            self._stop()
        elif looked.steps == NEEDED:
            self._stop()
            self._found(self._number, [_finding(passes, looked)])

    def _dropped(self, passes: list[_Pass]) -> int:
        """How many of them had no part in what the optimizer gets; 0 where that is not clear."""
        last = passes[-1]
        now = self._numbers()
        if now is None or any(each.place != last.place for each in passes):
            return 0
        if not all(bool(torch.isfinite(each.added).all()) for each in passes):
            return 0  # left out on purpose
        size = float(now.norm() * last.added.norm())
        if not size or float(now @ last.added) / size < SAME_DIRECTION:
            return 0
        return sum(each.dropped for each in passes[:-1])

    def _numbers(self) -> torch.Tensor | None:
        optimizer = None if self._optimizer is None else self._optimizer()
        return None if optimizer is None else gradient_numbers(optimizer)


def _finding(passes: list[_Pass], looked: _Looked) -> Finding:
    file, _, line = passes[-1].place.rpartition(":")
    share = looked.dropped[-1] / len(passes)
    return Finding(
        DROPPED_GRADIENT,
        Site("backward", "", "backward", file, int(line or 0), None),
        0,
        "",
        "",
        share,
        math.nan,
        math.nan,
        math.nan,
        precision=EXCLUDED,
        severity="WARNING",
        detail={
            "steps": looked.steps,
            "since": looked.since,
            "passes": len(passes),
            "count": looked.dropped[-1],
        },
    )
