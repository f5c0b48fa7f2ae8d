"""Weights that something other than the optimizer moves now and then, after which the loss is
worse: an average that is swapped in for an evaluation and not taken out again, a copy that shares
memory with what it is to restore.

And weights that are rounded between the steps of the optimizer, as those that are kept in FP8, so
that most of what it has changed is back where it was: rounded.py.

A few numbers of a few weights are kept after each step of the optimizer and before the next one;
every LOOK steps they are sent for together. It counts where such moves are few, each at least as
far as a usual step, and the loss rises after every one of them by more than nearly all of its other
changes. Projections after each step, and swaps that are undone, are no such moves.
"""

from __future__ import annotations

import math
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..base.alerts import NewAlert
from ..base.later import Parcel
from ..fp64.findings import MOVED_WEIGHTS, CameIn
from ..fp64.places import Site, find_call
from ..model import casts
from ..model.samples import is_readable, may_read, row
from ..model.selection import Watched
from ..operators.modes import others_on
from ..steps.listeners import StepListener
from ..steps.step import OpenStep
from .recast import Recast, flags
from .rounded import COUNTS, Rounding, counts
from .watcher import Found, fault

MOST_WEIGHTS = 2
NUMBERS = 64  # of each
KEPT = 256  # steps
LOOK = 32  # steps
NEEDED = 3  # moves
MOST_SHARE = 1 / 3  # of the steps: what moves weights all the time belongs to the training
WORSE = 1.2  # times the loss before, in the median
OTHERS = 0.9  # quantile of the loss's other changes


@dataclass(slots=True)
class _Between:
    """Two steps of the optimizer, one after the other."""

    earlier: int  # training steps
    later: int
    begun: torch.Tensor  # what the weights held before the earlier one, on their device
    ended: torch.Tensor  # after it
    now: torch.Tensor  # before the later one
    wide: bool  # they were held in FP32 after the earlier one
    cast_at: str  # file:line where a module that has them was cast between the two


@dataclass(slots=True)
class _Figures:
    """Of them."""

    earlier: int
    later: int
    cast_at: str
    # How far something else has moved the weights, how far the step has, rounded.py's counts, and
    # recast.py's flags.
    row: torch.Tensor


class MovedWeights(StepListener):
    """`found(step, findings)` takes what there is to say of the first optimizer that is heard.
    `rounded_by()`: what shadow steps have seen round weights between its steps.
    """

    name = "weights that something else moves"

    def __init__(
        self,
        found: Found,
        rounded_by: Callable[[], CameIn | None],
    ) -> None:
        self._found = found
        self._optimizer: weakref.ref[Any] | None = None
        self._weights: list[weakref.ref[torch.Tensor]] = []
        self._begun: torch.Tensor | None = None  # what they held before the newest step
        self._ended: torch.Tensor | None = None  # and after it
        self._number = 0  # of that step
        self._between: list[_Between] = []  # the newest, not yet sent for
        self._asked: tuple[Parcel, list[_Between]] | None = None  # figures on their way
        self._figures: deque[_Figures] = deque(maxlen=KEPT)
        self._losses: deque[tuple[int, Any]] = deque(maxlen=KEPT)
        self._over = False
        self._rounding = Rounding(found, rounded_by)
        self._recast = Recast(found)
        self._wide = False  # the weights after the newest step
        self._casts = 0  # of modules, until then
        self._place = ""  # file:line of the optimizer's step

    # --- what happens ---

    def optimizer_begins(
        self, step: OpenStep, optimizer: Any, held: Watched, closure: bool
    ) -> None:
        if self._over or others_on() or not may_read():
            return
        if self._optimizer is None:
            self._optimizer = weakref.ref(optimizer)
            self._weights = [weakref.ref(each) for each in _largest(held)]
            self._place = find_call(None, {}).source
        if self._optimizer() is not optimizer:
            return
        now, ended = self._numbers(), self._ended
        if now is not None and ended is not None and self._begun is not None:
            place = ""
            if casts.count() != self._casts:
                place = casts.place_since(self._casts, [each() for each in self._weights])
            self._between.append(
                _Between(self._number, step.number, self._begun, ended, now, self._wide, place)
            )
            if len(self._between) >= LOOK and self._asked is None:
                self._ask()
            if self._asked is not None and self._asked[0].arrived():
                self._take()
                self._look()
        self._begun, self._ended = now, None

    def optimizer_ended(self, step: OpenStep, optimizer: Any, held: Watched) -> None:
        if not self._over and self._optimizer is not None and self._optimizer() is optimizer:
            self._ended, self._number = self._numbers(), step.number
            living = [each() for each in self._weights]
            self._wide = all(each is not None and each.dtype is torch.float32 for each in living)
            self._casts = casts.count()

    def step_ended(self, step: OpenStep, alerts: list[NewAlert]) -> None:
        if not self._over and step.loss is not None:
            self._losses.append((step.number, step.loss))

    def run_ends(self) -> None:
        if self._over:
            return
        self._take()
        self._ask()
        self._take()
        self._look()

    def _numbers(self) -> torch.Tensor | None:
        weights = [each() for each in self._weights]
        rows = [row(each, NUMBERS) for each in weights if each is not None]
        if not rows or len(rows) != len(weights):
            self._over = True
            return None
        with torch.no_grad():
            return torch.cat(rows)

    def _sizes(self) -> list[int]:
        weights = [each() for each in self._weights]
        return [min(NUMBERS, each.numel()) for each in weights if each is not None]

    # --- what it means ---

    def _ask(self) -> None:
        between, self._between = self._between, []
        if not between:
            return
        with torch.no_grad():
            begun = torch.stack([each.begun for each in between])
            ended = torch.stack([each.ended for each in between])
            now = torch.stack([each.now for each in between])
            sizes = torch.stack(((now - ended).norm(dim=1), (ended - begun).norm(dim=1)), dim=1)
            wide = torch.tensor([each.wide for each in between], device=now.device)
            rounded = torch.stack(flags(ended, now, self._sizes()), dim=1) * wide[:, None]
            parcel = Parcel(torch.cat((sizes, counts(begun, ended, now), rounded), dim=1))
        self._asked = parcel, between

    def _take(self) -> None:
        """What was asked for, waited for where it is not there yet."""
        if self._asked is None:
            return
        (parcel, between), self._asked = self._asked, None
        parcel.wait()
        for each, row_of in zip(between, parcel.value, strict=True):
            self._figures.append(_Figures(each.earlier, each.later, each.cast_at, row_of))

    def _look(self) -> None:
        between = list(self._figures)
        if not between:
            return
        sizes = torch.stack([each.row for each in between])
        later = [each.later for each in between]
        places = [each.cast_at for each in between]
        self._recast.look(sizes[:, 2 + COUNTS :], later, places, self._weights, self._place)
        if len(between) < NEEDED / MOST_SHARE:
            return
        self._rounding.look(sizes[:, 2 : 2 + COUNTS], later)
        losses = {number: float(loss) for number, loss in self._losses}
        if not bool(sizes.isfinite().all()):
            self._over = True
            return
        usual = float(sizes[:, 1].median())
        # With how far the weights were moved, and the loss before and after.
        rises: list[tuple[_Figures, float, float, float]] = []
        others: list[float] = []
        for each, size in zip(between, sizes[:, 0].tolist(), strict=True):
            before, after = losses.get(each.earlier), losses.get(each.later)
            if before is None or after is None or not math.isfinite(before + after):
                continue
            if size >= usual > 0:
                rises.append((each, size, before, after))
            else:
                others.append(after - before)
        if len(rises) < NEEDED or len(rises) > MOST_SHARE * len(between) or not others:
            return
        bound = max(0.0, sorted(others)[int(OTHERS * (len(others) - 1))])
        before, after = _median([each[2] for each in rises]), _median([each[3] for each in rises])
        if all(late - early > bound for _, _, early, late in rises) and after > WORSE * abs(before):
            self._over = True
            times = _median([size / usual for _, size, _, _ in rises])
            self._say([each.later for each, *_ in rises], times, before, after)

    def _say(self, steps: list[int], times: float, before: float, after: float) -> None:
        finding = fault(
            MOVED_WEIGHTS,
            Site("", "", "state", "", 0, None),
            "WARNING",
            math.nan,
            count=len(steps),
            since=steps[0],
            times=times,
            loss_before=before,
            loss_after=after,
        )
        self._found(steps[-1], [finding])


def _largest(held: Watched) -> Sequence[torch.Tensor]:
    weights = [each for each in held.parameters if is_readable(each)]
    weights = [each for each in weights if each.device == weights[0].device]
    return sorted(weights, key=lambda each: -each.numel())[:MOST_WEIGHTS]


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
