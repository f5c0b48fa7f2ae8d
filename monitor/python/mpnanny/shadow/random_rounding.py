"""Whether weights that mostly stay where they are do so by chance, as with stochastic rounding: a
step leaves nine tenths of them as they were, each time other ones, and after n steps 0.9 to the nth
power are where they were. Rounding to nearest leaves the same ones, however often it is asked.

Told from the weights alone, so that it does not matter how a program rounds (bits, a kernel).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

STAYS = 0.5  # of a weight's numbers in one step, from which on there is something to ask
TELLS = 0.05  # that would still be where they were if each step left others: so few by then
# Of the way from chance to always the same ones: beyond it they are no more left by chance. Large
# weights move more seldom than small ones, and some never get a gradient.
NEAR_CHANCE = 0.35
MOST_AGE = 256  # steps after which the memory of a weight is made anew


@dataclass(slots=True)
class _Past:
    step: int
    numbers: torch.Tensor


class RandomRounding:
    """Of one run."""

    def __init__(self) -> None:
        self._past: dict[str, _Past] = {}

    def look(self, step: int, weights: Iterable[tuple[str, Any, torch.Tensor, float]]) -> set[str]:
        """Of a shadow step: name, line, some numbers before it and the part of them that it has
        left as they were (share_same) of each weight that it has changed. The names of those of
        lines most of whose weights stay by chance.
        """
        by_line: dict[Any, tuple[list[str], list[bool]]] = {}
        for name, line, before, stays in weights:
            names, found = by_line.setdefault(line, ([], []))
            names.append(name)
            at_random = self._is_random(name, step, before, stays)
            if at_random is not None:
                found.append(at_random)
        return {
            name
            for names, found in by_line.values()
            if found and 2 * sum(found) > len(found)
            for name in names
        }

    def _is_random(self, name: str, step: int, before: torch.Tensor, stays: float) -> bool | None:
        """None where that is not clear (yet)."""
        past = self._past.get(name)
        if past is None or past.numbers.shape != before.shape:
            self._past[name] = _Past(step, before)
            return None
        age = step - past.step
        if age < 1 or stays < STAYS or stays**age > TELLS:
            return None
        by_chance = stays**age
        still = float(share_same(past.numbers, before))
        if age > MOST_AGE:
            self._past[name] = _Past(step, before)
        return still - by_chance <= NEAR_CHANCE * (stays - by_chance)


def share_same(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """The part of the numbers that are equal, where they lie."""
    return (one == other).to(torch.float32).mean() if one.numel() else one.new_ones(())
