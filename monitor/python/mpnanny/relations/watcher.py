"""What watchers of a training loop have in common: they hear torch's own calls, those of other
models in the same thread as well, from the beginning of the run until they have seen enough.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from ..fp64.findings import EXCLUDED, Finding
from ..fp64.places import Site
from ..hooks import taps
from ..model.samples import may_read
from ..operators.modes import others_on
from ..steps.context import RunContext
from ..steps.listeners import StepListener
from ..steps.step import OpenStep

Found = Callable[[int, list[Finding]], None]


def fault(kind: str, site: Site, severity: str, share: float, /, **detail: Any) -> Finding:
    """A finding of the loop or of its state: precision has no part in it, and no operator either.
    `share`: of what it concerns.
    """
    none = math.nan
    return Finding(
        kind,
        site,
        0,
        "",
        "",
        share,
        none,
        none,
        none,
        precision=EXCLUDED,
        severity=severity,
        detail=detail,
    )


class LoopWatcher(taps.SomeCalls, StepListener):
    """`found(step, findings)` takes what there is to say. A subclass has a method, under heard(),
    for each of torch's calls that it wants.
    """

    reads_gradients = False  # what it does reads gradients: only while no other thread writes them

    def __init__(self, run: RunContext, found: Found) -> None:
        self._model = run.model
        self._thread = run.state.thread
        self._trouble = run.notes.trouble
        self._found = found
        self._number = 0  # of the training step

    def watch_begins(self) -> None:
        taps.add(self)

    def step_begins(self, step: OpenStep) -> None:
        self._number = step.number

    def run_ends(self) -> None:
        self.stop()

    def forked(self) -> None:
        self.stop()

    def stop(self) -> None:
        """It has seen enough, or the run has ended."""
        taps.remove(self)

    def safely(self, call: Callable[[], None]) -> None:
        """In the training's thread. What it raises is the last that is heard of it."""
        try:
            if not self._thread.is_here():
                return
            if not self.reads_gradients:
                call()
            elif not others_on() and may_read():
                with self._thread.reading() as quiet, torch.no_grad():
                    if quiet:
                        call()
        except Exception as error:
            self.stop()
            self._trouble(self.name, error)


def heard(method: Callable[..., None]) -> Callable[..., None]:
    """A call of torch's, as safely() lets it through."""

    @functools.wraps(method)
    def call(self: LoopWatcher, *args: Any) -> None:
        self.safely(lambda: method(self, *args))

    return call
