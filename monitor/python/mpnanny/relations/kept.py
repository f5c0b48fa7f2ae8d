"""Gradients that are not finite and stay in .grad across a skipped step: backward() adds to them,
so no later step is finite either. zero_grad() is missing where a step is skipped.

Looked at when a backward pass is about to begin, and only after a step whose gradients were not
finite and whose update was left out, by the loss scaler or by the program.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch

from .._core import nonfinite
from ..fp64.findings import NONFINITE_KEPT
from ..fp64.places import Site, find_call
from ..model.optimizers import parameters_of
from ..model.samples import is_readable, may_read
from ..model.selection import Watched
from ..model.watched import WatchedModel
from ..operators.modes import others_on
from ..steps.listeners import StepListener
from ..steps.reading import graph_task_id
from ..steps.step import OpenStep
from .watcher import Found, fault

NEEDED = 2  # backward passes that began with such gradients


class KeptGradients(StepListener):
    """`found(step, findings)` takes what there is to say."""

    name = "gradients kept across a skipped step"

    def __init__(self, model: WatchedModel, found: Found) -> None:
        self._model = model
        self._found = found
        self._optimizer: weakref.ref[Any] | None = None  # whose step was left out
        self._bad = False  # the newest gradients that were read, and no step used them
        self._steps: list[int] = []  # of the passes that began with such gradients
        self._said = False

    def scaler_stepped(self, step: OpenStep, scaler: Any, optimizer: Any, skipped: Any) -> None:
        if skipped is True:
            self._optimizer, self._bad = weakref.ref(optimizer), True

    def gradients_read(self, step: OpenStep, bad: bool) -> None:
        self._bad = self._bad or bad

    def optimizer_ended(self, step: OpenStep, optimizer: Any, held: Watched) -> None:
        self._optimizer, self._bad = weakref.ref(optimizer), False

    def backward_begins(self, step: OpenStep, losses: Any) -> None:
        if not self._bad or self._said:
            return
        if graph_task_id() != -1 or others_on() or not may_read():
            return
        names = self._still_there()
        if not names:
            self._bad = False
            self._steps.clear()
            return
        self._steps.append(step.number)
        if len(self._steps) >= NEEDED:
            self._say(names)

    def _still_there(self) -> list[str]:
        """Parameters whose gradient is not finite before the pass adds to it."""
        optimizer = None if self._optimizer is None else self._optimizer()
        names = {id(each): name for name, each in self._model.module.named_parameters()}
        weights = list(self._model.module.parameters())
        if optimizer is not None:
            weights = list(parameters_of(optimizer))
        found = []
        for each in weights:
            gradient = each.grad
            if gradient is None or not is_readable(gradient):
                continue
            if gradient.device.type == "cpu":
                bad = bool(nonfinite([gradient]))
            else:
                bad = not bool(torch.isfinite(gradient).all())
            if bad:
                found.append(names.get(id(each), ""))
        return found

    def _say(self, names: list[str]) -> None:
        self._said = True
        place = find_call(None, {})
        finding = fault(
            NONFINITE_KEPT,
            Site("backward", "", "backward", place.file, place.line, None),
            "ERROR",
            1.0,
            parameters=names[:16],
            count=len(self._steps),
            since=self._steps[0],
        )
        self._found(self._steps[-1], [finding])
