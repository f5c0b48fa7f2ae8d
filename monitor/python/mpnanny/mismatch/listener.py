"""Calls of log_mismatch on their way into the record of a run."""

from __future__ import annotations

import json
import math
from collections import deque
from typing import Any

import torch

from ..base.console import Console
from ..operators.modes import without_modes
from ..steps.context import RunContext
from ..steps.listeners import StepListener
from .batch import Batch, Given, other_experts
from .head import HeadTries

MOST_WAITING = 64  # calls before any run has begun
FIRST_CALLS = 100  # of which groups are kept; afterwards of each tenth
FIRST_TRIES = 3  # of which the head is tried; afterwards of each sixteenth


class Call:
    """One call, measured or on its way to be."""

    def __init__(
        self,
        number: int,
        sides: tuple[Given, Given],
        optional: dict[str, Any],
        step: int | None,
        synced: bool | None,
        head: tuple[Any, Any],
    ) -> None:
        self.number = number
        self.step = step
        self.synced = synced
        self.notes: list[str] = []
        self.figures: dict[str, Any] = {}  # once they have arrived
        first = sides[0]
        device = first.device.type if isinstance(first, torch.Tensor) else "cpu"
        with torch.no_grad(), without_modes(), torch.autocast(device, enabled=False):
            experts = other_experts(optional.pop("experts", None), sides[0])
            self._batch = Batch(*sides, {**optional, "experts": experts})
            self._tries = self._head_tries(head, optional, sides)

    def _head_tries(
        self, head: tuple[Any, Any], optional: dict[str, Any], sides: tuple[Any, Any]
    ) -> HeadTries | None:
        hidden, weight = head
        if hidden is None or weight is None:
            return None
        if self.number >= FIRST_TRIES and self.number % 16:
            return None
        if optional.get("tokens") is None or isinstance(sides[0], (list, tuple)):
            self.notes.append("log_mismatch: `hidden` and `head` need `tokens`, all as tensors")
            return None
        return HeadTries(hidden, weight, optional["tokens"], optional.get("mask"), sides)

    def arrived(self) -> bool:
        return self._batch.arrived() and (self._tries is None or self._tries.arrived())

    def events(self) -> list[tuple[str, str]]:
        """(type, detail) of what the run's record gets."""
        figures = self._batch.figures()
        if figures is None:
            return []
        scalars, groups = figures
        own = {"call": self.number, "update": self.step, "synced": self.synced}
        own["skipped_rows"] = self._batch.skipped or None
        known = {key: value for key, value in own.items() if value is not None}
        self.figures = json.loads(scalars)
        events = [("logprob_mismatch", json.dumps({**known, **self.figures}))]
        if self.number < FIRST_CALLS or self.number % 10 == 0:
            for each in groups:
                events.append(
                    ("logprob_groups", json.dumps({"call": self.number, **json.loads(each)}))
                )
        if self._tries is not None:
            tokens, tries = self._tries.value()
            rows = [
                [name, value, float(f"{a:.4g}"), float(f"{b:.4g}")] for name, value, a, b in tries
            ]
            events.append(
                ("logprob_head", json.dumps({"call": self.number, "tokens": tokens, "tries": rows}))
            )
        return events


class Mismatches(StepListener):
    """Writes the calls of the process into one run's record."""

    name = "log_mismatch"

    def __init__(self, run: RunContext) -> None:
        self._run = run
        self._waiting: deque[tuple[int, Call]] = deque()
        self.calls = 0

    def watch_begins(self) -> None:
        _sinks.append(self)
        while _early:
            self.add(_early.popleft())

    def step_begins(self, step: Any) -> None:
        self._deliver(wait=False)

    def run_ends(self) -> None:
        self._deliver(wait=True)
        self.forked()

    def forked(self) -> None:
        if self in _sinks:
            _sinks.remove(self)

    def add(self, call: Call) -> None:
        self.calls += 1
        for note in call.notes:
            self.note(note)
        self._waiting.append((max(self._run.state.number, 0), call))
        self._deliver(wait=False)

    def note(self, text: str) -> None:
        self._run.notes.note(text)

    def _deliver(self, wait: bool) -> None:
        while self._waiting and (wait or self._waiting[0][1].arrived()):
            step, call = self._waiting.popleft()
            for kind, detail in call.events():
                self._run.core.event(step, kind, detail)
            self._alert(step, call.figures)

    def _alert(self, step: int, figures: dict[str, Any]) -> None:
        if not figures:
            return
        not_finite = figures["bad_trainer"] + figures["bad_rollout"]
        k3 = figures.get("k3", math.inf)  # left out where it passes FP64's range
        beyond = figures.get("beyond", 0.0)
        self._run.core.logprobs(step, figures["tokens"], not_finite, k3, beyond)


_sinks: list[Mismatches] = []
_early: deque[Call] = deque(maxlen=MOST_WAITING)
_said: set[str] = set()


def log(
    sides: tuple[Given, Given],
    optional: dict[str, Any],
    step: int | None,
    synced: bool | None,
    head: tuple[Any, Any],
) -> None:
    """Measures one call, and hands it to the run that was watched first, or to the next one to
    begin. Nothing is raised into the training: what does not fit is said once.
    """
    sink = _sinks[0] if _sinks else None
    number = len(_early) if sink is None else sink.calls
    try:
        call = Call(number, sides, dict(optional), step, synced, head)
    except Exception as error:
        text = f"log_mismatch: {error}"
        if sink is not None:
            sink.note(text)
        elif text not in _said:
            _said.add(text)
            Console(False).warn(text)
        return
    if sink is None:
        _early.append(call)
    else:
        sink.add(call)
