"""Metrics in 16 bits by which a schedule decides that nothing gets better (ReduceLROnPlateau),
where in FP64 it does: the improvement is less than a step of the format.

Each number that the program reads in a shadow step is known twice, as held and as its reference.
The schedule itself is asked, with its own threshold, whether either is better than the best so far,
which it has been given as one of these numbers. It counts where that was decided otherwise twice
and the learning rate has fallen.
"""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass, field
from typing import Any

import torch

from ..fp64.findings import PROVEN, STANDS_STILL, Finding
from ..fp64.places import Site
from .watcher import fault

OTHERWISE = 2  # steps
MOST_SEARCHES = 8  # through the objects of the process
MOST_KEPT = 1024  # numbers

_Schedule = torch.optim.lr_scheduler.ReduceLROnPlateau


@dataclass(slots=True)
class _Known:
    schedule: weakref.ref[Any]
    rate: float  # of learning, when it was met
    steps: set[int] = field(default_factory=set)  # in which it decided otherwise
    site: Site | None = None
    dtype: str = ""
    read_at: str = ""


class Plateaus:
    """Of one run."""

    def __init__(self) -> None:
        self._known: list[_Known] = []
        self._searches = 0
        self._references: dict[tuple[str, float], float] = {}  # by the line and what was held
        self._said = False
        self.wants = False  # the next step is to be looked at, too

    def reads(
        self, step: int, tensor: torch.Tensor, reference: float, site: Site, read_at: str
    ) -> None:
        """The program reads `tensor`, one number in 16 bits that was made at `site`."""
        if self._said or len(self._references) >= MOST_KEPT:
            return
        if not self._known and self._searches < MOST_SEARCHES:
            self._searches += 1
            self._search()
        held = float(tensor.detach())
        for each in self._known:
            schedule = each.schedule()
            best = None if schedule is None else self._references.get((site.source, schedule.best))
            if schedule is None or best is None:
                self.wants = self.wants or (schedule is not None and schedule.best == held)
                continue
            better = getattr(schedule, "_is_better", None) or schedule.is_better  # by its release
            if not better(held, schedule.best) and better(reference, best):
                each.steps.add(step)
                each.site, each.dtype, each.read_at = site, str(tensor.dtype)[6:], read_at
        self._references.setdefault((site.source, held), reference)

    def found(self) -> list[Finding]:
        """At the end of a shadow step."""
        for each in self._known:
            schedule = each.schedule()
            if schedule is None or each.site is None or len(each.steps) < OTHERWISE:
                continue
            if self._said or _rate(schedule) >= each.rate:
                continue
            self._said = True
            what = "A metric by which ReduceLROnPlateau decides"
            finding = fault(
                STANDS_STILL, each.site, "WARNING", 1.0, what=what, count=len(each.steps)
            )
            finding.dtype, finding.precision = each.dtype, PROVEN
            finding.reach["decision", each.read_at] = 1.0
            return [finding]
        return []

    def _search(self) -> None:
        for each in gc.get_objects():
            if issubclass(type(each), _Schedule):
                self._known.append(_Known(weakref.ref(each), _rate(each)))


def _rate(schedule: Any) -> float:
    return max(float(group["lr"]) for group in schedule.optimizer.param_groups)
