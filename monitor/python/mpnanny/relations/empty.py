"""Steps of an optimizer none of whose parameters has a gradient, while losses are derived: what is
trained are the parameters of another model than the one that the optimizer was made for (a model
that was built anew on resuming, a copy, a wrapper with weights of its own).

Heard are all backward passes and optimizers of the training's thread. It counts where NEEDED steps
one after another, each after a backward pass, have no gradient at all, and no other optimizer has
stepped with one meanwhile: several optimizers may take turns.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from ..fp64.findings import EMPTY_STEP, EXCLUDED, Finding
from ..fp64.places import Site, find_call
from ..hooks import taps
from ..model.watched import WatchedModel
from ..steps.listeners import StepListener
from ..steps.reading import graph_task_id
from ..steps.step import OpenStep
from ..steps.thread import StepThread

NEEDED = 5


class _Ears(taps.SomeCalls):
    def __init__(self, empty: EmptySteps) -> None:
        self._empty = empty

    def heard_backward(self, losses: Any) -> None:
        self._empty.safe(self._empty.derives)

    def heard_optimizer_step(self, optimizer: Any, closure: bool) -> None:
        self._empty.safe(lambda: self._empty.steps(optimizer, closure))


class EmptySteps(StepListener):
    """`found(step, findings)` takes what there is to say of optimizers of `model`."""

    name = "steps without a gradient"

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
        self._derived = 0  # backward passes since the last step of an optimizer
        self._empty: weakref.WeakKeyDictionary[Any, list[int]] = weakref.WeakKeyDictionary()
        self._until: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    # --- the run ---

    def watch_begins(self) -> None:
        taps.add(self._ears)

    def step_begins(self, step: OpenStep) -> None:
        self._number = step.number

    def run_ends(self) -> None:
        taps.remove(self._ears)

    def forked(self) -> None:
        taps.remove(self._ears)

    def safe(self, call: Callable[[], None]) -> None:
        try:
            if self._thread.is_here():
                call()
        except Exception as error:
            taps.remove(self._ears)
            self._trouble(self.name, error)

    # --- what is heard ---

    def derives(self) -> None:
        if graph_task_id() == -1:
            self._derived += 1

    def steps(self, optimizer: Any, closure: bool) -> None:
        """`optimizer` is about to step."""
        derived, self._derived = self._derived, 0
        if closure or graph_task_id() != -1:
            return
        if any(each.grad is not None for each in _held(optimizer)):  # mostly the first one has
            self._empty.clear()
            self._until[optimizer] = self._number
            return
        if not derived or not any(each.requires_grad for each in _held(optimizer)):
            return
        steps = self._empty.setdefault(optimizer, [])
        steps.append(self._number)
        if len(steps) == NEEDED and self._is_of_model(optimizer):
            self._found(self._number, [self._finding(optimizer)])

    def _is_of_model(self, optimizer: Any) -> bool:
        return any(id(each) in self._model.parameter_ids for each in _held(optimizer))

    def _finding(self, optimizer: Any) -> Finding:
        place = find_call(None, {})
        until = self._until.get(optimizer)
        detail = {"steps": NEEDED, "since": self._empty[optimizer][0]}
        return Finding(
            EMPTY_STEP,
            Site("step", "", "optimizer", place.file, place.line, None),
            0,
            "",
            "",
            1.0,
            math.nan,
            math.nan,
            math.nan,
            precision=EXCLUDED,
            severity="ERROR",
            detail=detail if until is None else {**detail, "until": until},
        )


def _held(optimizer: Any) -> Iterator[Any]:
    return (each for group in optimizer.param_groups for each in group["params"])
