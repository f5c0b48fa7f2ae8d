"""The GradScalers of one model."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from typing import Any, cast

from .step import Figure, OpenStep, to_float


class Scalers:
    """`main`: of the main optimizer, whose scale is recorded: the one that was given, or the first
    that was heard.
    """

    def __init__(self, main: Any) -> None:
        self.main = main
        self._all: weakref.WeakSet[Any] = weakref.WeakSet()
        if main is not None:
            with contextlib.suppress(TypeError):
                self._all.add(main)

    def __contains__(self, scaler: Any) -> bool:
        return scaler in self._all

    def adopt(self, scaler: Any, is_ours: Callable[[], bool]) -> bool:
        """Whether `scaler` is one of this model's; of one that is new `is_ours` decides."""
        if not scaler.is_enabled():
            return False
        if scaler not in self._all:
            if not is_ours():
                return False
            self._all.add(scaler)
        if self.main is None:
            self.main = scaler
        return True

    def use(self, step: OpenStep, scaler: Any) -> None:
        """`scaler` is used in `step`."""
        step.uses_scaler = True
        step.scale_now = read_scale(scaler)
        if step.scale is None and scaler is self.main:
            step.scale = step.scale_now
            step.growth_interval = int(scaler.get_growth_interval())


def read_scale(scaler: Any) -> Figure | None:
    scale = getattr(scaler, "_scale", None)
    if scale is None:
        return float(getattr(scaler, "_init_scale", 0)) or None
    return cast("Figure | None", to_float(scale))
