"""Weights that are rounded between the steps of the optimizer, because they are kept in a format
that is too narrow for its updates: most of what a step has changed is back where it was before the
next one. No copy holds what is missing: the optimizer itself goes on from the rounded weights.

It shows in a few numbers of the weights before a step, after it, and before the next one. Weights
that are put back on purpose (frozen rows, a mask of zeros, a clamp) leave the others as the
optimizer has made them; rounding changes nearly all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from ..fp64.findings import LOST_CHANGE, NOT_TESTED, PROVEN, CameIn, Finding
from ..fp64.places import Site

STEPS = 8  # at least
MOST_STEPS = 0.9  # of them, in which
LOST = 0.5  # of the numbers that the step has changed are back
ROUNDED = 0.9  # of these numbers are no longer what the step has made of them


COUNTS = 3  # columns of counts()


def counts(before: torch.Tensor, after: torch.Tensor, later: torch.Tensor) -> torch.Tensor:
    """Rows of weights. Of the numbers that a step has changed, but for zeros: how many, how many of
    them are back at the next one, and how many are others than it has made them. float32, a row
    each, on their device.
    """
    changed = (after != before) & (before != 0)
    back = changed & (later == before)
    others = changed & (later != after)
    each_of = (changed, back, others)
    return torch.stack([each.sum(dim=1, dtype=torch.float32) for each in each_of], dim=1)


class Rounding:
    """Of one optimizer. `by()`: what shadow steps have seen round its weights."""

    def __init__(
        self, found: Callable[[int, list[Finding]], None], by: Callable[[], CameIn | None]
    ) -> None:
        self._found = found
        self._by = by
        self._said = False

    def look(self, returns: torch.Tensor, steps: Sequence[int]) -> None:
        """`returns`: counts() of each of `steps`."""
        changed, back, others = returns.unbind(1)
        moved = changed > 0
        if self._said or int(moved.sum()) < STEPS:
            return
        lost = (back >= LOST * changed) & (others >= ROUNDED * changed) & moved
        if float(lost.sum()) < MOST_STEPS * float(moved.sum()):
            return
        self._said = True
        share = float(back.sum() / changed.sum())
        came = self._by()
        site = came.site if came is not None else Site("", "", "state", "", 0, None)
        finding = Finding(
            LOST_CHANGE,
            site,
            0,
            "" if came is None else came.dtype,
            "",
            share,
            math.nan,
            0.0,
            share,
            precision=NOT_TESTED if came is None else PROVEN,
            severity="WARNING",
            detail={"since": steps[0], "steps": len(steps), "rounded_between": True},
        )
        finding.reach["state", "weights"] = share
        self._found(steps[-1], [finding])
