"""One change to one source text, and in which order the changes of a file are tried."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """`text[start:end]` becomes `new`."""

    start: int
    end: int
    new: str

    def apply(self, text: str) -> str:
        return text[: self.start] + self.new + text[self.end :]

    def line(self, text: str) -> int:
        return text.count("\n", 0, self.start) + 1

    def told(self, text: str) -> str:
        """The lines that it touches, before and after, without what they have in common around."""
        first = text.rfind("\n", 0, self.start) + 1
        last = text.find("\n", self.end)
        last = len(text) if last < 0 else last
        old = " ".join(text[first:last].split())
        new = " ".join((text[first : self.start] + self.new + text[self.end : last]).split())
        return f"`{old}` -> `{new}`"


def drawn(mutants: list[Mutant], seed: int) -> list[Mutant]:
    """All of them in a random order, in which no place comes a second time before every other."""
    order = sorted(mutants, key=lambda mutant: (mutant.start, mutant.end, mutant.new))
    random.Random(seed).shuffle(order)
    seen: dict[int, int] = {}
    turns = []
    for mutant in order:
        turns.append(seen.get(mutant.start, 0))
        seen[mutant.start] = turns[-1] + 1
    return [order[i] for i in sorted(range(len(order)), key=lambda i: (turns[i], i))]


def other_numbers(text: str) -> list[str]:
    """What a number written as `text` is changed to."""
    if text.isdecimal():
        value = int(text)
        return [str(value + 1)] + ([str(value - 1)] if value > 0 else [])
    try:
        is_zero = float(text) == 0
    except ValueError:  # a suffix, another base
        return [f"({text} + 1)"]
    return ["1.0"] if is_zero else [f"({text} * 2)", f"({text} / 2)"]
