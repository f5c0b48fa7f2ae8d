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

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from ..fp64.findings import DROPPED_GRADIENT, Finding
from ..fp64.places import Site, find_call
from ..model.optimizers import ids_of
from ..model.samples import gradient_numbers
from ..operators.places import Place
from ..steps.context import RunContext
from ..steps.reading import graph_task_id
from .watcher import Found, LoopWatcher, fault, heard

NEEDED = 3  # steps of the optimizer with several passes, one after another
MOST_STEPS = 16  # that are looked at
MOST_PASSES = 256
SAME_DIRECTION = 0.9999  # cosine


@dataclass(slots=True)
class _Pass:
    place: str  # file:line of backward()
    added: torch.Tensor  # to the gradients
    dropped: bool = False
    zeroed: Place | None = None  # the zero_grad() after it


@dataclass(slots=True)
class _Looked:
    """At an optimizer, so far."""

    passes: list[_Pass] = field(default_factory=list)
    served: bool = False  # another optimizer has stepped since
    steps: int = 0
    since: int = 0  # the first of these, as a training step
    dropped: list[int] = field(default_factory=list)  # passes of a step


class DroppedGradients(LoopWatcher):
    """Says it of the first optimizer of the model."""

    name = "gradients that are dropped"
    reads_gradients = True

    def __init__(self, run: RunContext, found: Found) -> None:
        super().__init__(run, found)
        self._passes = 0
        self._optimizer: weakref.ref[Any] | None = None
        self._looked = _Looked()
        self._before_closure: int | None = None  # passes before the step that is under way
        self._before: torch.Tensor | None = None  # gradients when the pass under way began

    def stop(self) -> None:
        super().stop()
        self._looked.passes.clear()

    def safely(self, call: Callable[[], None]) -> None:
        if graph_task_id() == -1:  # not inside of a pass: activations that are computed again
            super().safely(call)

    # --- what is heard ---

    @heard
    def heard_backward_begins(self, losses: Any) -> None:
        self._before = self._numbers()
        passes = self._looked.passes
        if passes and self._before is not None:
            passes[-1].dropped = bool(passes[-1].added.any()) and not self._before.any()

    @heard
    def heard_zeroed(self, owner: Any) -> None:
        passes = self._looked.passes
        if passes and passes[-1].zeroed is None:
            passes[-1].zeroed = find_call(None, {})

    @heard
    def heard_backward_ended(self) -> None:
        self._passes += 1
        before, after = self._before, self._numbers()
        self._before = None
        if self._passes > MOST_PASSES:
            self.stop()
        elif before is not None and after is not None and before.shape == after.shape:
            line = find_call(None, {})
            self._looked.passes.append(_Pass(f"{line.file}:{line.line}", after - before))

    @heard
    def heard_scaler_steps(self, scaler: Any, optimizer: Any) -> None:
        self._look(optimizer)

    @heard
    def heard_optimizer_begins(self, optimizer: Any, closure: bool) -> None:
        if closure:  # the last pass comes inside of the step
            self._before_closure = len(self._looked.passes)
        else:
            self._look(optimizer)

    @heard
    def heard_optimizer_ended(self, optimizer: Any) -> None:
        before, self._before_closure = self._before_closure, None
        if before is None:
            return
        if len(self._looked.passes) > before + 1:
            self.stop()  # one that tries several points, each with a gradient of its own
        else:
            self._look(optimizer)

    def _look(self, optimizer: Any) -> None:
        known = None if self._optimizer is None else self._optimizer()
        if known is None:
            if ids_of(optimizer) & self._model.parameter_ids:
                self._optimizer = weakref.ref(optimizer)  # its passes are looked at from now on
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
            self.stop()
        elif looked.steps == NEEDED:
            self.stop()
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
    site = Site("backward", "", "backward", file, int(line or 0), None)
    zeroed = next((each.zeroed for each in passes if each.dropped), None)
    known: dict[str, Any] = {}
    if zeroed is not None and zeroed.file:
        site = Site("zero_grad", "", "backward", zeroed.file, zeroed.line, None, zeroed.callers)
        known = {"at": passes[-1].place, "called_from": site.called_from}
    return fault(
        DROPPED_GRADIENT,
        site,
        "WARNING",
        looked.dropped[-1] / len(passes),
        steps=looked.steps,
        since=looked.since,
        passes=len(passes),
        count=looked.dropped[-1],
        **known,
    )
