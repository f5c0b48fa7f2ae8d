"""The smallest set of units that has to stay in the wider format, by trying.

First every unit is low. If that is more wrong than it may be, units are put back into the wider
format: those that are worst by themselves first, as many as are needed, and then each of them is
tried without, so that what is left are the units without any of which it would not do.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

from .effect import Effect, worse

# So wrong may outputs, loss and gradients of a plan be (relative, L2): auto_diff calls it degraded.
LEAST_TOLERANCE = 0.05
# …or so many times as wrong as the model would be if no unit were more sensitive than usual:
# errors of roundings add up as their squares do, and a factor of 3 is beyond that sum's own spread.
USUAL = 3.0
# …but never more: beyond it a step no longer follows the gradient.
MOST_TOLERANCE = 0.25
_OUTLIER = 3.0  # times the median, to which what a unit does is cut when the usual sum is made

Try = Callable[[Sequence[str]], Effect]


@dataclass(slots=True)
class IslandSearch:
    """`islands`: units that stay wide. `before`, `after`: with none of them wide, with all.
    `alone`: of each unit that was low by itself. `needed`: how wrong the plan becomes without that
    island. `established`: False where the time was over before the set was small, or where no set
    is enough.
    """

    tolerance: float
    before: Effect
    after: Effect
    islands: list[str] = field(default_factory=list)
    alone: dict[str, Effect] = field(default_factory=dict)
    needed: dict[str, Effect] = field(default_factory=dict)
    established: bool = True
    passes: int = 0


def tolerance_of(alone: dict[str, Effect], least: float = LEAST_TOLERANCE) -> float:
    """How wrong a plan may be."""
    errors = [each.error for each in alone.values() if each.error > 0]
    if not errors:
        return least
    middle = median(errors)
    if not math.isfinite(middle):
        return least
    usual = math.sqrt(sum(min(each, _OUTLIER * middle) ** 2 for each in errors))
    return max(least, min(MOST_TOLERANCE, USUAL * usual))


def find_islands(
    units: Sequence[str],
    run: Try,
    *,
    least: float = LEAST_TOLERANCE,
    deadline: float = math.inf,
    alone: bool = True,
    past_errors: bool = True,
) -> IslandSearch:
    """`run(low)` gives the effect of the units `low` in the low format, all others wide; it is
    called with all of them first. `alone`: measure each unit by itself even where none has to stay
    wide. `deadline`: of time.monotonic(). `past_errors`: search also where the code stops with all
    units low.
    """
    before = run(units)
    found = IslandSearch(least, before, before, passes=1)
    if before.raised and not past_errors:
        found.established = False
        return found
    if before.error > least or alone:
        for unit in units:
            if time.monotonic() > deadline:
                found.established = before.error <= least
                break
            found.alone[unit] = run([unit])
            found.passes += 1
        found.tolerance = tolerance_of(found.alone, least)
    if before.error <= found.tolerance:
        return found
    _search(units, run, found, deadline)
    return found


def _search(units: Sequence[str], run: Try, found: IslandSearch, deadline: float) -> None:
    def with_wide(wide: Sequence[str]) -> Effect:
        found.passes += 1
        return run([unit for unit in units if unit not in wide])

    islands, after = _enough(units, with_wide, found, deadline)
    if after.error > found.tolerance:
        found.established = False
        found.islands, found.after = islands, after
        return
    # The least harmful first: what is not needed goes before what may stand in for it is looked at.
    for unit in reversed(islands.copy()):
        if time.monotonic() > deadline:
            found.established = False
            break
        fewer = [each for each in islands if each != unit]
        effect = with_wide(fewer)
        if effect.error <= found.tolerance:
            islands, after = fewer, effect
        else:
            found.needed[unit] = effect
    found.needed = {unit: found.needed[unit] for unit in islands if unit in found.needed}
    found.islands = [unit for unit in units if unit in islands]
    found.after = after


def _enough(
    units: Sequence[str], with_wide: Try, found: IslandSearch, deadline: float
) -> tuple[list[str], Effect]:
    """The first of the units, by how wrong they are alone, that are enough: 1, 2, 4 … of them, and
    then the smallest number between.
    """
    order = worse(found.alone) + [unit for unit in units if unit not in found.alone]
    few, many = 0, 1
    effect = with_wide(order[:many])
    while effect.error > found.tolerance and many < len(order) and time.monotonic() <= deadline:
        few, many = many, min(len(order), 2 * many)
        effect = with_wide(order[:many])
    if effect.error > found.tolerance:
        return order[:many], effect
    while many - few > 1 and time.monotonic() <= deadline:
        between = (few + many) // 2
        tried = with_wide(order[:between])
        if tried.error <= found.tolerance:
            many, effect = between, tried
        else:
            few = between
    return order[:many], effect
