"""Steps of an optimizer none of whose parameters has a gradient, while losses are derived: what is
trained are the parameters of another model than the one that the optimizer was made for (a model
that was built anew on resuming, a copy, a wrapper with weights of its own).

Heard are all backward passes and optimizers of the training's thread. It counts where NEEDED steps
one after another, each after a backward pass, have no gradient at all, and no other optimizer has
stepped with one meanwhile: several optimizers may take turns.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from ..fp64.findings import EMPTY_STEP, Finding
from ..fp64.places import Site, find_call
from ..model.optimizers import ids_of, parameters_of
from ..steps.context import RunContext
from ..steps.reading import graph_task_id
from .watcher import Found, LoopWatcher, fault, heard

NEEDED = 5


class EmptySteps(LoopWatcher):
    """Says it of optimizers of the model, but for those of which `is_known(optimizer)`."""

    name = "steps without a gradient"

    def __init__(
        self, run: RunContext, found: Found, is_known: Callable[[Any], bool] = lambda _: False
    ) -> None:
        super().__init__(run, found)
        self._is_known = is_known
        self._derived = 0  # backward passes since the last step of an optimizer
        self._empty: weakref.WeakKeyDictionary[Any, list[int]] = weakref.WeakKeyDictionary()
        self._until: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    @heard
    def heard_backward_begins(self, losses: Any) -> None:
        if graph_task_id() == -1:
            self._derived += 1

    @heard
    def heard_optimizer_begins(self, optimizer: Any, closure: bool) -> None:
        derived, self._derived = self._derived, 0
        if closure or graph_task_id() != -1:
            return
        if any(each.grad is not None for each in parameters_of(optimizer)):  # mostly the first
            self._empty.clear()
            self._until[optimizer] = self._number
            return
        if not derived or not any(each.requires_grad for each in parameters_of(optimizer)):
            return
        steps = self._empty.setdefault(optimizer, [])
        steps.append(self._number)
        if self._is_known(optimizer):
            return
        if len(steps) == NEEDED and ids_of(optimizer) & self._model.parameter_ids:
            self._found(self._number, [self._finding(optimizer)])

    def _finding(self, optimizer: Any) -> Finding:
        place = find_call(None, {})
        site = Site("step", "", "optimizer", place.file, place.line, None)
        until = self._until.get(optimizer)
        detail = {"steps": NEEDED, "since": self._empty[optimizer][0]}
        if until is not None:
            detail["until"] = until
        return fault(EMPTY_STEP, site, "ERROR", 1.0, **detail)
