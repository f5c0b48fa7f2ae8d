"""When parameters and their gradients are read: once a step, at the first moment that shows them
whole and not yet clipped.
"""

from __future__ import annotations

from typing import Any

from ..model.selection import Watched
from .listeners import StepListener
from .state import RunState
from .step import Figure


class Gradients:
    """Hands them to the reader of the open step."""

    def __init__(self, state: RunState, events: StepListener) -> None:
        self._state = state
        self._events = events

    def read(self, held: Watched | None, factor: Figure, given: list[Any] | None = None) -> None:
        """Of `held`, those that were not read in this step; times `factor` they are unscaled.
        `given`: the gradients of `held`, where they are not in .grad; then none was read before.
        """
        state, step = self._state, self._state.open
        if step is None or held is None or held.ids <= step.read:
            return
        if not state.thread.is_alone():
            return
        if step.read and given is None:
            held = held.without(step.read)
        if state.sampling:
            state.reader.weights(held.layers, held.parameters)
        gradients = given or [parameter.grad for parameter in held.parameters]
        bad = state.reader.gradients(held.layers, gradients, factor)
        self._events.gradients_read(step, bad)
        step.read |= held.ids
