"""Which operators of a shadow step are followed: all, those of the layers that the user asked for,
or, where references of the whole step need more memory than there is, the layers in turn.

What is not followed runs as ever and has no references: what it makes is held, and a reference that
goes into it ends there.
"""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Callable, Sequence

from ..fp64.places import Site

# Beside the modules there are these two; no module has such a name.
OPTIMIZER = "(optimizer)"  # and what follows it: averages of weights
OUTSIDE = "(outside of modules)"  # data, loss

FILLED = 0.8  # of the memory allowed, by what a part is expected to need
LEAST_FACTOR = 0.05
MUCH_MORE = 1.5  # memory than was too little, before everything is tried again


def unit_of(site: Site) -> str:
    """What an operator belongs to: a module's name or one of the two above."""
    if site.phase in ("optimizer", "state"):
        return OPTIMIZER
    return OUTSIDE if site.module is None else site.module


class Scope:
    """Of one step. `history`: references go on from one operator to the next; else each operator
    starts from what is held, so that there are only the errors that it makes itself.
    """

    def __init__(self, chosen: Callable[[str], bool], history: bool = True) -> None:
        self._chosen = chosen
        self.history = history
        self.followed: set[str] = set()  # units
        self.left_out: dict[str, None] = {}  # the others, in the order in which they came

    def follows(self, site: Site) -> bool:
        unit = unit_of(site)
        if unit in self.followed:
            return True
        if unit in self.left_out:
            return False
        if self._chosen(unit):
            self.followed.add(unit)
            return True
        self.left_out[unit] = None
        return False


def matcher(globs: Sequence[str]) -> Callable[[str], bool]:
    """Whether a module, or one that it lies in, has a name that fits."""

    def fits(unit: str) -> bool:
        if unit in (OPTIMIZER, OUTSIDE):
            return False
        names = [unit]
        while "." in names[-1]:
            names.append(names[-1].rpartition(".")[0])
        return any(fnmatch.fnmatchcase(name, glob) for name in names for glob in globs)

    return fits


class Scopes:
    """Of a run: what the next shadow step follows. `globs`: the layers that the user asked for;
    empty: everything.

    Once a step's references took more memory than they may, the next steps follow a part of its
    units each, in order and as many as are expected to fit, so that in the end all were followed. A
    unit that does not fit by itself is followed operator by operator.
    """

    def __init__(self, globs: Sequence[str] = ()) -> None:
        self._fits = matcher(globs) if globs else None
        self._sizes: dict[str, int] = {}  # bytes of all references that each unit made in a step
        self._factor = 1.0  # the most that a part took at a time, over the sum of its sizes
        self._at = 0  # the first unit of the next part
        self._most_units = 0  # of the next part; 0: as many as fit
        self._alone: set[str] = set()  # units that do not fit by themselves
        self._part: list[str] = []  # of the step under way; empty: everything
        self._allowed = 0  # bytes, in that step
        self._too_little = 0  # bytes that were not enough for everything
        self._told: set[str] = set()

    def begin(self, most_bytes: int) -> Scope | None:
        """For a step whose references may take so much; None: it follows everything."""
        self._allowed = most_bytes
        self._part = self._next_part(most_bytes)
        if self._part:
            return Scope(frozenset(self._part).__contains__, self._part[0] not in self._alone)
        return None if self._fits is None else Scope(self._fits)

    def _next_part(self, most_bytes: int) -> list[str]:
        units = list(self._sizes)
        room = FILLED * most_bytes
        if not units:
            return []
        if most_bytes > MUCH_MORE * self._too_little and self._expected(units) <= room:
            self._sizes.clear()
            self._alone.clear()
            return []
        part = units[self._at : self._at + 1]
        for unit in units[self._at + 1 :]:
            if self._most_units and len(part) >= self._most_units:
                break
            if (unit in self._alone) != (part[0] in self._alone):
                break
            if unit not in self._alone and self._expected([*part, unit]) > room:
                break
            part.append(unit)
        return part

    def _expected(self, units: Sequence[str]) -> float:
        return self._factor * sum(self._sizes[unit] for unit in units)

    def ended(
        self, scope: Scope | None, sizes: Counter[str], took: int, overflowed: bool
    ) -> str | None:
        """The step is over: what its units made, the most that all of it `took` at a time, and
        whether that was more than allowed. What there is to say about it, once.
        """
        part, self._part = self._part, []
        if not part:
            if not overflowed and (scope is None or scope.followed or not scope.left_out):
                return None
            if not overflowed:
                return self._once("shadow steps follow nothing: no module that runs fits layers=")
            self._too_little = self._allowed
            self._sizes = dict(sizes)
            self._at = self._most_units = 0
            self._factor = 1.0
            return self._once(
                "shadow steps look at the layers in turn: the FP64 values of all of them need more"
                " memory than they may take"
            )
        if overflowed:
            if len(part) > 1:
                self._most_units = len(part) // 2
                return None
            self._alone.add(part[0])
            return self._once(
                "shadow steps look at the operators of some layers one by one: the FP64 values of"
                " such a layer need more memory than they may take"
            )
        if part[0] not in self._alone:
            self._sizes.update((unit, sizes[unit]) for unit in part if sizes[unit])
            made = sum(self._sizes[unit] for unit in part)
            self._factor = max(LEAST_FACTOR, took / made if made else 0.0, self._factor / 2)
        for unit in scope.left_out if scope is not None else ():
            if self._fits is None or self._fits(unit):
                self._sizes.setdefault(unit, 0)  # has not run before
        self._most_units = 0
        end = self._at + len(part)
        if end >= len(self._sizes):
            self._at = 0
        elif part[0] in self._alone:
            self._at = end
        else:  # the last unit once more, with the one after it: errors go from one to the next
            self._at = max(self._at + 1, end - 1)
        return None

    def _once(self, text: str) -> str | None:
        if text in self._told:
            return None
        self._told.add(text)
        return text
