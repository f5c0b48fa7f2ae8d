"""What a shadow step finds, and how far each finding reaches."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .places import Site

# Kinds, the worst first. What each means stands in docs/shadow.md.
RANGE = "range"  # not finite here, finite in the reference
UNDEFINED = "undefined"  # not finite in both: no precision helps
INTEGERS = "integers"  # whole numbers that are no longer whole, or no longer the same
LOST_CHANGE = "lost_change"  # a state that should have changed and stays as it was
AMPLIFIED = "amplified"  # much error out of little
FLUSHED = "flushed"  # what is not 0 became 0
CLIPPED = "clipped"  # a cast to a format cut values off
DIVERGED = "diverged"  # updates so large that values left every range
NO_GRADIENT = "no_gradient"  # cut off from a parameter that the loss depends on
NOT_UPDATED = "not_updated"  # a parameter with a gradient that nothing changes
NOT_ZEROED = "not_zeroed"  # a gradient that still holds that of the step before
NOT_RESTORED = "not_restored"  # states that a resumed training left as they begin
SCALE_DEPENDENT = "scale_dependent"  # gradients that are others with another loss scale
MOVED_ON_SKIP = "moved_on_skip"  # a state that went on in steps without an update
PARTIAL_COPY = "partial_copy"  # buffers of an average that do not follow
DROPPED_GRADIENT = "dropped_gradient"  # zeroed before an optimizer has used it
EMPTY_STEP = "empty_step"  # of an optimizer, without any gradient
MOVED_WEIGHTS = "moved_weights"  # by something other than the optimizer, and the loss rises
LOAD_UNDONE = "load_undone"  # loaded weights that the next optimizer step undid
KINDS = (DIVERGED, RANGE, UNDEFINED, INTEGERS, LOST_CHANGE, AMPLIFIED, FLUSHED, CLIPPED)
_SEVERITIES = ("ERROR", "WARNING", "INFO")

PROVEN, EXCLUDED, NOT_TESTED = "proven", "excluded", "not_tested"


@dataclass(slots=True)
class Cure:
    """What was recomputed in a wider type, and what that made of the error."""

    lines: list[str]  # file:line, in the order in which they run
    operators: list[str]
    what: str  # float32, or float64 where the operator ran in float32
    error_before: float
    error_after: float | None  # None: not measured


@dataclass(slots=True)
class Finding:
    """One operator at one line. Errors are relative, in the L2 norm, against the reference."""

    kind: str
    site: Site
    number: int  # of the operator in its step: what is first comes first
    dtype: str
    shape: str
    share: float  # of the elements
    magnitude: float  # largest of the reference
    error_in: float
    error_out: float
    parents: tuple[Finding, ...] = ()  # whose error it works on
    precision: str = NOT_TESTED
    cure: Cure | None = None
    severity: str = "INFO"
    count: int = 1  # in this step
    reach: dict[tuple[str, str], float] = field(default_factory=dict)  # (what, name) -> error
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[Any, ...]:
        return self.kind, self.site.key

    @property
    def only_blurs_gradients(self) -> bool:
        """It gets to gradients, which stay finite, and to nothing else."""
        return all(what == "gradient" for what, _ in self.reach) and all(
            map(math.isfinite, self.reach.values())
        )

    @property
    def is_discarded(self) -> bool:
        """Infinities of a backward pass that the program has read, as in a test, and let into no
        gradient that an optimizer used: it has left the update out.
        """
        if self.kind != RANGE or self.site.phase != "backward":
            return False
        return all(what in ("output", "replaced") for what, _ in self.reach)

    def reached(self, what: str, name: str, error: float) -> None:
        """It gets to a loss, a gradient, a state, an output or an index; so do its parents."""
        for each in (self, *self.ancestors()):
            each.reach[what, name] = max(error, each.reach.get((what, name), 0.0))

    def ancestors(self) -> Iterable[Finding]:
        for parent in self.parents:
            yield parent
            yield from parent.ancestors()

    def root(self) -> Finding:
        """Where the error that it works on came in; itself, if it made the error."""
        found = self
        while found.parents:
            found = found.parents[0]
        return found

    def order(self) -> tuple[Any, ...]:
        """Worse before better, and earlier before later."""
        return (
            _SEVERITIES.index(self.severity),
            KINDS.index(self.kind) if self.kind in (DIVERGED, RANGE, UNDEFINED) else len(KINDS),
            self.number,
        )


class Findings:
    """Those of one step, one for each kind and place."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[Any, ...], Finding] = {}

    def add(self, finding: Finding) -> Finding:
        """The finding of this kind and place: this one, or the one that was there before, with the
        worse figures.
        """
        known = self._by_key.get(finding.key)
        if known is None:
            self._by_key[finding.key] = finding
            return finding
        known.count += 1
        if finding.error_out > known.error_out or finding.share > known.share:
            for name in ("dtype", "shape", "share", "magnitude", "error_in", "error_out"):
                setattr(known, name, getattr(finding, name))
        return known

    def all(self) -> list[Finding]:
        return list(self._by_key.values())
