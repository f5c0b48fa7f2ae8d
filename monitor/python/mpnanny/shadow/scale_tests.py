"""In which shadow steps of a run the loss scale is doubled (scale_lane), and for which scalers."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import nn

from ..fp64.findings import Finding
from ..fp64.places import Site, find_call
from .memory import allowance
from .scale_lane import ScaleLane
from .step import ShadowStep

MOST = 4  # steps whose gradients were compared


class ScaleTests:
    """`model()`: whose gradients are followed."""

    def __init__(self, model: weakref.ref[nn.Module]) -> None:
        self._model = model
        self._scalers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._made = 0

    def begins(self, step: ShadowStep) -> None:
        """A shadow step."""
        if not self._scalers or self._made >= MOST:
            return
        lane = step.mode.lane = ScaleLane(step.mode.references, allowance(), self._parameters)
        for scaler in self._scalers:
            lane.know(getattr(scaler, "_scale", None))

    def scaled(self, step: ShadowStep | None, scaler: Any, losses: list[torch.Tensor]) -> None:
        """`scaler` has made `losses` of those of the program."""
        self._scalers.add(scaler)
        if step is None:
            return
        if step.mode.lane is None:
            self.begins(step)
        if step.mode.lane is not None:
            step.mode.lane.scaled(losses, _called_at())

    def optimizer_begins(
        self, step: ShadowStep, parameters: list[tuple[str, torch.Tensor]]
    ) -> None:
        """It is about to use the gradients of `parameters`."""
        if step.mode.lane is not None:
            step.mode.lane.compare(parameters, _called_at())

    def found(self, step: ShadowStep) -> list[Finding]:
        """The step is over."""
        lane = step.mode.lane
        if lane is None:
            return []
        self._made += lane.tested
        return lane.found

    def _parameters(self) -> list[torch.Tensor]:
        model = self._model()
        return [] if model is None else list(model.parameters())


def _called_at() -> Site | None:
    place = find_call(None, {})
    return Site("", "", "optimizer", place.file, place.line, None) if place.file else None
