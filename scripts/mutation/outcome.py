"""What came of a mutant."""

from __future__ import annotations

from dataclasses import dataclass

KILLED = "killed"
HUNG = "killed by the time limit"
SURVIVED = "survived"
# The next two are not counted.
REFUSED = "does not compile"
SAME = "compiles to the same code"


@dataclass(frozen=True)
class Outcome:
    kind: str
    by: str = ""  # the test that killed it

    @property
    def is_killed(self) -> bool:
        return self.kind in (KILLED, HUNG)

    @property
    def counts(self) -> bool:
        return self.is_killed or self.kind == SURVIVED


class Failure(Exception):
    """Mutants of this file cannot be tried, and why."""
