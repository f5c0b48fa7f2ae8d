"""What two runs mean: broken, degraded, clean or not established."""

from __future__ import annotations

import math

import torch

from ..fp64.comparison import HALF_ULP, compare
from ..fp64.findings import AMPLIFIED, INTEGERS, RANGE, UNDEFINED, Finding
from ..fp64.thresholds import NOTED
from .decisions import CAST_SHARE, Differing
from .operator_errors import FEWEST_WHOLE, Row
from .shadowed import Measured

SPREAD = 8.0  # times what the roundings add up to, from which on an error is more than that
DEGRADED = 0.05  # of an output: an error that is spread over many operators, or a decision's


class Verdict:
    """Of a run in FP32 and one in the low precision. `rel_warn`, `rel_error`: flat limits of the
    outputs' errors, beside what is measured.
    """

    def __init__(
        self,
        full: Measured,
        low: Measured,
        rel_warn: float | None = None,
        rel_error: float | None = None,
    ) -> None:
        self.full = full
        self.low = low
        self._limits = (rel_warn, rel_error)
        self.ill_conditioned = [each for each in _that_count(full) if _is_wide(each)]
        self._ill_keys = {each.site.key for each in self.ill_conditioned}

    def bad(self) -> list[Finding]:
        """The findings that make a verdict, the worst first. What FP32 has as well is none of the
        low precision.
        """
        return [
            each
            for each in _that_count(self.low)
            if not self._is_shared(each) and not self._is_negligible(each)
        ]

    def grown(self, root: Finding) -> Finding | None:
        """The largest error that an operator makes of the whole numbers that `root` changes."""
        return _grown(self.low, root)

    def _is_shared(self, finding: Finding) -> bool:
        return finding.site.key in self._ill_keys and finding.kind != RANGE

    def _is_negligible(self, finding: Finding) -> bool:
        """It gets to gradients only, and these are too small beside what they come from to change
        anything: the exact derivative of a sign, of a saturated gate.
        """
        if not finding.only_blurs_gradients or not finding.reach:
            return False
        floor = HALF_ULP.get(self.low.dtype, 0.0) * self.low.size
        sizes = [each.size * each.found.squared_reference**0.5 for each in self.low.gradients]
        return bool(sizes) and max(sizes) < floor

    def word(self) -> str:
        if self.low.raised is not None:
            return "broken"
        bad = self.bad()
        worst = max((each.error for each in self.low.outputs), default=0.0)
        warn, error = self._limits
        if any(each.severity == "ERROR" or each.kind == RANGE for each in bad):
            return "broken"
        if any(each.found.range for each in self.low.outputs):
            return "broken"  # where no operator made it: inputs that the dtype cannot hold
        if error is not None and worst > error:
            return "broken"
        if any(each.kind == UNDEFINED for each in self.low.findings if is_bad(each)):
            return "broken"
        if bad or (warn is not None and worst > warn) or self.is_spread() or self.decided():
            return "degraded"
        if self.wrong_whole() is not None:
            return "degraded"
        if not self.low.in_low:  # no operator met the dtype: nothing was tried
            return "not_established"
        return "clean"

    def is_spread(self) -> bool:
        worst = max((each.error for each in self.low.outputs), default=0.0)
        return worst > max(DEGRADED, SPREAD * self.expected())

    def wrong_whole(self) -> Row | None:
        """The first operator that gives wrong whole numbers, where an output has such."""
        outputs = [each.found for each in self.low.outputs if each.found.numel >= FEWEST_WHOLE]
        if not any(
            each.integers and each.wrong_integers >= CAST_SHARE * each.numel for each in outputs
        ):
            return None
        rows = [each for each in self.low.rows if each.wrong_whole >= CAST_SHARE]
        return min(rows, key=lambda each: each.number, default=None)

    def decided(self) -> Differing | None:
        """The first whole numbers that are others than in FP32, where an output is for that."""
        differing = [each for each in self.low.decisions.differing if each.counts]
        if not self._outputs_differ():
            differing = [each for each in differing if each.is_cast]
        return differing[0] if differing else None

    def _outputs_differ(self) -> bool:
        """From those of the FP32 run, which draws the same random numbers."""
        if self.low.attempt is None or self.full.attempt is None:
            return False
        for (_, low), (_, full) in zip(
            self.low.attempt.outputs, self.full.attempt.outputs, strict=False
        ):
            if low.shape != full.shape or not low.numel():
                continue
            if not low.is_floating_point():
                if (low != full).sum().item() >= CAST_SHARE * low.numel():
                    return True
                continue
            found = compare(low, full.detach().to(torch.float64))
            if found is not None and (found.error > DEGRADED or found.range):
                return True
        return False

    def expected(self) -> float:
        """What the roundings of the forward pass add up to if nothing amplifies them."""
        rows = [each for each in self.low.rows if each.site.phase != "backward"]
        return math.sqrt(sum(each.squared_local for each in rows))


def is_bad(finding: Finding) -> bool:
    """Whether it makes a verdict: what a training's monitor would report, and what is more than a
    rounding of the dtype and gets to an output, the loss or a gradient.
    """
    if finding.severity != "INFO":
        return True
    if not finding.reach or finding.kind in (RANGE, UNDEFINED):
        return False
    return finding.error_out > _least(finding)


def _least(finding: Finding) -> float:
    """The error that is more than a note and a rounding of the dtype."""
    rounding = max((HALF_ULP.get(dtype, 0.0) for dtype in _dtypes(finding.dtype)), default=0.0)
    return max(NOTED, rounding)


def _that_count(measured: Measured) -> list[Finding]:
    """The findings that make a verdict, the worst first. Among them positions, ids, counts or times
    that become others and of which an operator makes a large error, such as a sine: a fault of the
    code even where nothing of it gets to an output, because the weights are those of a beginning
    and do not look there yet.
    """
    found = [each for each in measured.findings if each.kind != INTEGERS and is_bad(each)]
    roots = {
        id(each): each
        for one in measured.findings
        for each in (one, one.root())  # one that reaches nothing is a root only
        if each.kind == INTEGERS and _harms(measured, each)
    }
    return sorted([*found, *roots.values()], key=Finding.order)


def _harms(measured: Measured, root: Finding) -> bool:
    """Whether it matters that whole numbers are others: an index is made of them, they come out,
    or what is computed from them is far off. A large number that fills a mask harms nothing.
    """
    least = _least(root)
    for (what, _), error in root.reach.items():
        if what in ("index", "decision") or error > least:
            return True
        if what == "output" and any(
            each.found.integers and each.found.wrong_integers for each in measured.outputs
        ):
            return True
    return _grown(measured, root) is not None


def _grown(measured: Measured, root: Finding) -> Finding | None:
    """In the forward pass, and cured with the whole numbers in FP32: these are its cause."""
    made = [
        each
        for each in measured.findings
        if each.kind == AMPLIFIED
        and each.site.phase != "backward"
        and each.root() is root
        and each.cure is not None
        and root.site.source in each.cure.lines
    ]
    return max(made, key=lambda each: each.error_out, default=None)


def _is_wide(finding: Finding) -> bool:
    """In FP32: 16-bit numbers that the code itself asks for are in both runs."""
    return not any(each in HALF_ULP and each.itemsize < 4 for each in _dtypes(finding.dtype))


def _dtypes(words: str) -> list[torch.dtype]:
    found = [
        getattr(torch, each, None) for each in words.replace("→", ",").replace(" ", "").split(",")
    ]
    return [each for each in found if isinstance(each, torch.dtype)]
