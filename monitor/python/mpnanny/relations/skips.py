"""Learning rates that go on in steps whose update was skipped.

A schedule that is called once a step moves the learning rate exactly when the weights move, as long
as no step is skipped. Learnt from the run's own steps: only where that held in all of the steps
that were updated, LEARNT of them at least, does a change in a skipped step mean something.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

from ..fp64.findings import MOVED_ON_SKIP, Finding
from ..fp64.places import Site
from ..steps.listeners import StepListener
from ..steps.step import OpenStep
from .watcher import Found, fault

LEARNT = 20  # updated steps, each with a change after it
MANY = 10  # skipped steps, and this share of all steps: the schedule is elsewhere by then
MANY_OF = 0.05


@dataclass(slots=True)
class _Schedule:
    """Of one optimizer."""

    rates: tuple[float, ...] | None = None  # when its last step ended
    skipped: bool = False  # that step was
    with_weights: int = 0  # updated steps after which they changed
    alone: int = 0  # after which they did not
    on_skip: int = 0  # skipped ones after which they changed
    at_rest: int = 0  # after which they did not
    said: str = ""  # the severity

    def hear(self, rates: tuple[float, ...]) -> None:
        """The rates with which the next step begins."""
        if self.rates is None:
            return
        moved = rates != self.rates
        if self.skipped:
            self.on_skip += moved
            self.at_rest += not moved
        else:
            self.with_weights += moved
            self.alone += not moved
        self.rates = None

    def severity(self) -> str:
        """Empty: nothing to say."""
        if not self.on_skip or self.at_rest or self.alone or self.with_weights < LEARNT:
            return ""
        steps = self.with_weights + self.on_skip
        many = self.on_skip >= MANY and self.on_skip >= MANY_OF * steps
        return "WARNING" if many else "INFO"


class SkippedSteps(StepListener):
    """`found(step, findings)` takes what there is to say. Looks at plain numbers only."""

    name = "skipped steps"

    def __init__(self, found: Found) -> None:
        self._found = found
        self._schedules: weakref.WeakKeyDictionary[Any, _Schedule] = weakref.WeakKeyDictionary()

    def scaler_steps(self, step: OpenStep, scaler: Any, optimizer: Any) -> None:
        known = self._schedules.get(optimizer)
        rates = _rates(optimizer)
        if known is None or rates is None:
            return
        known.hear(rates)
        severity = known.severity()
        if severity and severity != known.said:
            known.said = severity
            self._found(step.number, [_finding(known, severity)])

    def scaler_stepped(self, step: OpenStep, scaler: Any, optimizer: Any, skipped: Any) -> None:
        known = self._schedules.setdefault(optimizer, _Schedule())
        known.rates = _rates(optimizer) if isinstance(skipped, bool) else None
        known.skipped = skipped is True


def _rates(optimizer: Any) -> tuple[float, ...] | None:
    """None where a rate is a tensor, which a device may hold."""
    rates = tuple(group.get("lr") for group in optimizer.param_groups)
    return rates if all(isinstance(each, float) for each in rates) else None


def _finding(schedule: _Schedule, severity: str) -> Finding:
    return fault(
        MOVED_ON_SKIP,
        Site("", "", "optimizer", "", 0, None),
        severity,
        schedule.on_skip / (schedule.on_skip + schedule.with_weights),
        what="the learning rate",
        changes_with_weights=schedule.with_weights,
        steps=schedule.on_skip,
    )
