"""Models that are trained beside the watched one and that no run watches, as the other half of a
GAN: they are reported.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from ..model.optimizers import ids_of
from ..process import search
from ..process.ends import live_runs


class LeftOut:
    """`note`: Notes.note."""

    STEPS = 8  # of an optimizer: by then every run of the program has begun

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._steps: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def stepped(self, optimizer: Any) -> None:
        """`optimizer` is about to step, and holds nothing of the watched model."""
        steps = self._steps[optimizer] = self._steps.get(optimizer, 0) + 1
        if steps != self.STEPS:
            return
        held = ids_of(optimizer)
        for run in live_runs():
            if any(id(parameter) in held for parameter in run.model.parameters()):
                return
        model = search.owner(held)
        what = (
            "tensors of no module" if model is None else f"another model ({type(model).__name__})"
        )
        self._note(
            f"{type(optimizer).__name__} trains {what}, {len(held)} parameters, which no run"
            " watches: give it a MixedPrecisionNanny of its own"
        )
