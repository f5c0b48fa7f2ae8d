"""Whole numbers that a plan changes: positions, ids, counts and times that 16 bits do not hold. The
outputs of a model that has learnt nothing hardly depend on them, so no search by outputs finds
them; they are measured by themselves, and the units that change them stay in FP32.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from ..diff.shadowed import Measured, measure
from ..diff.verdict import Verdict
from ..fp64.findings import INTEGERS, Finding
from ..operators.places import pass_through
from ..programs.policy import full_precision
from ..programs.problem import Problem
from ..programs.program import Attempt, Program, Region
from .assignment import OUTSIDE

pass_through(__file__)


@dataclass(frozen=True, slots=True)
class Changed:
    """`root`: the operator that gives other whole numbers. `grown`: the one that makes the largest
    error of them.
    """

    root: Finding
    grown: Finding | None

    @property
    def unit(self) -> str:
        return OUTSIDE if self.root.site.module is None else self.root.site.module


@dataclass(slots=True)
class KeptWhole:
    """`islands`: units, and what each of them would change. `left`: what no island keeps."""

    islands: dict[str, Changed] = field(default_factory=dict)
    left: list[Changed] = field(default_factory=list)


class WholeNumbers:
    """Of one program. `own`: what its code changes in FP32 as well, by its own 16 bits."""

    def __init__(self, program: Program) -> None:
        self._program = program
        with full_precision(program.options.device):
            attempt = program.attempt(None, widened=True)
            self._full = self._measured(contextlib.nullcontext, attempt, torch.float32, 1.0)
        self.own = [] if self._full is None else _changed(self._full, self._full)
        self._own_keys = {each.root.key for each in self.own}

    def keep(
        self,
        units: Sequence[str],
        islands: Sequence[str],
        region_for: Callable[[Sequence[str], Attempt], Region],
        low: torch.dtype,
        scale: float,
    ) -> KeptWhole:
        """Which of `units` have to be islands beside `islands`. `region_for(islands, attempt)`: of
        the plan with these islands. `scale`: of the loss.
        """

        def changed(more: Sequence[str]) -> list[Changed]:
            attempt = self._program.attempt(None)
            measured = self._measured(region_for([*islands, *more], attempt), attempt, low, scale)
            if measured is None or self._full is None:
                return []
            found = _changed(self._full, measured)
            return [each for each in found if each.root.key not in self._own_keys]

        found = changed([])
        if not found:
            return KeptWhole()
        # The unit itself takes its dtype from another perhaps: then one around it has to be wide.
        levels: list[list[str]] = []
        left = found
        for level in _levels([each.unit for each in found], units):
            levels.append(level)
            left = changed(_joined(levels))
            if not left:
                break
        if left:
            return KeptWhole(left=left)
        for level in levels[:-1]:  # those that are not needed beside the ones around them
            rest = [each for each in levels if each is not level]
            if not changed(_joined(rest)):
                levels = rest
        return KeptWhole({unit: _of(unit, found) for unit in _joined(levels)})

    def _measured(
        self, region: Region, attempt: Attempt, low: torch.dtype, scale: float
    ) -> Measured | None:
        """None where it cannot be followed or stops: other figures say so."""
        full = None if low is torch.float32 else self._full
        try:
            made = measure(self._program, None, region, scale, full, attempt)
        except Problem:
            return None
        made.dtype = low
        return None if made.raised is not None else made


def _changed(full: Measured, low: Measured) -> list[Changed]:
    verdict = Verdict(full, low)
    return [Changed(each, verdict.grown(each)) for each in verdict.bad() if each.kind == INTEGERS]


def _levels(names: Sequence[str], units: Sequence[str]) -> list[list[str]]:
    """First `names`, then of each the unit around it, and so on."""
    around = {name: _around(name, units) for name in names}
    depth = max(len(each) for each in around.values())
    levels = [
        list(dict.fromkeys(each[at] for each in around.values() if at < len(each)))
        for at in range(depth)
    ]
    return [each for each in levels if each]


def _around(name: str, units: Sequence[str]) -> list[str]:
    """`name` and the units that it lies in, from the inside."""
    found = [name] if name in units else []
    while name and name != OUTSIDE:
        name = name.rpartition(".")[0]
        if name in units:
            found.append(name)
    return found


def _joined(levels: Sequence[Sequence[str]]) -> list[str]:
    return list(dict.fromkeys(unit for level in levels for unit in level))


def _of(unit: str, found: Sequence[Changed]) -> Changed:
    """What lies in `unit`, and is changed there."""
    inside = [each for each in found if unit in _around(each.unit, [unit])]
    return max(inside or found, key=lambda each: each.grown.error_out if each.grown else 0.0)
