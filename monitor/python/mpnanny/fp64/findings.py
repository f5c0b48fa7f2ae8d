"""What a shadow step finds, and how far each finding reaches."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
STATE_NARROWED = "state_narrowed"  # that a checkpoint brought back in 16 bits
RECAST = "recast"  # weights that a cast has rounded between two steps
NONFINITE_KEPT = "nonfinite_kept"  # gradients that a skipped step has left for the next one
STANDS_STILL = "stands_still"  # an average that is written and does not move
SAVED_OTHERWISE = "saved_otherwise"  # than it is held
STATE_OF_ANOTHER = "state_of_another"  # moments that another parameter's gradients have made
LOAD_UNDONE = "load_undone"  # loaded weights that the next optimizer step undid
NOT_REPRODUCED = "not_reproduced"  # other bits out of the same operands
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


@dataclass(frozen=True, slots=True)
class CameIn:
    """An operator in which an error came in that is too small there to be a finding."""

    site: Site
    dtype: str  # "bfloat16", or "float32 → bfloat16"
    error: float

    def detail(self) -> dict[str, Any]:
        site = self.site
        return {
            "operator": site.operator,
            "source": site.source,
            "phase": site.phase,
            "dtype": self.dtype,
            "error": self.error,
            "called_from": site.called_from,
        }


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
    # Infinities of a backward pass that the program has read, as in a test, and let into no
    # gradient that an optimizer used: it has left the update out.
    is_discarded: bool = False
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


CARRIERS = {
    "data": "a tensor that was not finite before the step",
    "state": "a state that was not finite before the step",
    "unwritten": "memory that no operator has written since it was made",
}


def findings_of(
    found: tuple[list[tuple[Any, ...]], list[int]], sites: Sequence[Site]
) -> list[Finding]:
    """What the judge has found (mpnanny._core.Judge.finish) and what counts of it, the worst first.
    `sites`: by the numbers of places.
    """
    rows, numbers = found
    made = [_finding_of(row, sites) for row in rows]
    for finding, row in zip(made, rows, strict=True):
        if row[9] >= 0:
            finding.parents = (made[row[9]],)
    return [made[number] for number in numbers]


def _finding_of(row: tuple[Any, ...], sites: Sequence[Site]) -> Finding:
    kind, place, number, dtype, shape, share, magnitude, error_in, error_out = row[:9]
    precision, cure, severity, is_discarded, count, reach = row[10:16]
    return Finding(
        kind,
        sites[place],
        number,
        dtype,
        str(shape),
        share,
        magnitude,
        error_in,
        error_out,
        precision=precision,
        cure=None if cure is None else Cure(*cure),
        severity=severity,
        is_discarded=is_discarded,
        count=count,
        reach={(what, name): error for what, name, error in reach},
        detail=_detail_of(row[16:], sites),
    )


def _detail_of(row: tuple[Any, ...], sites: Sequence[Site]) -> dict[str, Any]:
    why_no_cure, operands, inputs_from, entered, rounded_before, carried, lost, singular = row
    detail: dict[str, Any] = {}
    if why_no_cure:
        detail["cure"] = why_no_cure
    if operands:
        detail["operands"] = operands
    if inputs_from:
        detail["inputs_from"] = inputs_from
    if entered is not None:
        place, dtype, error = entered
        detail["came_in"] = CameIn(sites[place], dtype, error).detail()
    if rounded_before:
        detail["rounded_before"] = True
    if carried is not None:
        carrier, whose, at = carried
        detail |= {"from": CARRIERS[carrier], "carrier": carrier}
        detail |= {name: value for name, value in (("whose", whose), ("at", at)) if value}
    if lost is not None:
        names = ("steps", "lost_in", "since", "half_ulp", "relative_change")
        detail |= dict(zip(names, lost[:-1], strict=True))
        if lost[-1]:
            detail["lost_before"] = True
    if singular is not None:
        is_pole, held, reference, *zero = singular
        if is_pole:
            detail["derivative"] = [[held, reference]]
        if zero[1]:
            detail["meets"] = [zero]
    return detail
