"""What a comparison of a result with its reference says: whether an operator made an error, and
which kind of it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from ..fp64.call import Call, Input, Result
from ..fp64.comparison import compare
from ..fp64.cure import cure_loop, find_cure
from ..fp64.entering import decides
from ..fp64.findings import (
    AMPLIFIED,
    CLIPPED,
    EXCLUDED,
    FLUSHED,
    INTEGERS,
    NOT_TESTED,
    RANGE,
    UNDEFINED,
    Finding,
    Findings,
)
from ..fp64.history import Layout
from ..fp64.noise import cancels, depends_on_noise, is_noise_of_elements
from ..fp64.operators import INTEGERS_OF_FLOATS, holds_nonfinite_number
from ..fp64.references import Entry, References
from ..fp64.unwritten import Unwritten
from ..fp64.witness import came_in, lines_before, operands, type_words, types_of
from . import carriers
from .profile import Profile

# A result this far from its reference (relative, L2) is wrong, one that makes this many times the
# error of its inputs has made it. Healthy BF16 networks stay below 0.1 for a long way: one BF16
# rounding is 0.002, a BF16 matrix product 0.004.
WRONG = 0.2
AMPLIFICATION = 5.0
# Less than wrong and yet made here: a note.
NOTED = 0.04
NOTED_AMPLIFICATION = 8.0
CARRIES = 0.02  # errors below this are no longer followed
FLUSHED_SHARE = 0.3  # of the elements that matter
MATTERS = 1e-2  # of the root mean square, that an element must have to matter
WRONG_INTEGERS = 0.01
WRONG_INDICES = 0.25
MOST_CURE_SECONDS = 2.0  # that searching for cures may take in a step
CLIPPED_SHARE = 1e-3
CLIPPED_ERROR = 0.1


def _worst(sources: list[Input]) -> Input | None:
    """The input whose error goes on; of whole numbers that became others the one with most."""
    wrong = [each for each in sources if each.origin is not None]
    worst = max(wrong, key=lambda each: each.error, default=None)
    if worst is None or worst.origin is None or worst.origin.kind != INTEGERS:
        return worst
    others = [each for each in wrong if each.origin is not None and each.origin.kind == INTEGERS]
    return max(others, key=lambda each: each.origin.share if each.origin else 0.0)


def _are_whole(reference: torch.Tensor) -> bool:
    return bool((reference == reference.round()).all())


class Judge:
    """Of one step. `names(tensor)`: of a parameter or buffer, "" of anything else."""

    def __init__(
        self,
        references: References,
        names: Callable[[torch.Tensor], str],
        unwritten: Unwritten | None = None,
    ) -> None:
        self.findings = Findings()
        self.compared = 0
        self.profile = Profile()
        self.magnitudes: dict[Any, float] = {}  # of each place's results, largest of the reference
        self._cure_seconds = 0.0
        self._errors: dict[int, float] = {}  # of what each operator made, by its number
        self._references = references
        self._names = names
        self._unwritten = unwritten or Unwritten()

    def judge(
        self, call: Call, index: int, held: torch.Tensor, reference: torch.Tensor, entry: Entry
    ) -> None:
        storage = held.untyped_storage()._cdata
        call.node.outputs.append(
            Layout(storage, tuple(held.shape), tuple(held.stride()), int(held.storage_offset()))
        )
        entry.node = call.node
        if not held.numel():
            return
        found = compare(held, reference)
        if found is None:
            return
        self.compared += 1
        error = found.error
        entry.rounding = max([call.rounding, *(each.rounding for each in call.sources())])
        self.profile.made(call.site, held.dtype, found)
        key = call.site.key
        if found.max_reference > self.magnitudes.get(key, 0.0):
            self.magnitudes[key] = found.max_reference
        call.node.error = error if not found.range else math.inf
        self._errors[call.node.number] = max(
            call.node.error, self._errors.get(call.node.number, 0.0)
        )
        if found.reference_only and not found.bad:
            self._references.restart(held)
            entry.error, entry.origin = 0.0, None
            return
        entry.keep(held, found, bool(call.written))
        carried = _worst(call.sources())
        origin = carried.origin if carried is not None else None
        noise = any(each.noise for each in call.sources())
        result = Result(call, index, held, reference, found, origin)
        made: Finding | None = None
        if found.bad:
            made = self._nonfinite(result)
            entry.error, entry.noise = math.inf, False
            entry.origin = made or origin
            return
        if carried is not None and carried.error >= WRONG and cancels(result, entry.rounding):
            entry.error, entry.noise, entry.origin = carried.error, False, origin
            return  # what should cancel out does not, because of an error that came in
        entry.error = error
        entry.noise = error > CARRIES and (
            (
                found.is_noise(held.dtype, entry.rounding)
                and (carried is None or carried.error < WRONG)
            )
            or cancels(result, entry.rounding)
            or (noise and depends_on_noise(result))
            or (call.site.phase == "optimizer" and self._is_noise_of_elements(result))
        )
        entry.origin = origin if error > CARRIES and not entry.noise else None
        if origin is not None and origin.kind == INTEGERS and error > 0:
            entry.origin = origin  # an id that is off by one is a small error
        if entry.noise:
            return
        if found.integers and found.wrong_integers:
            entry.origin = self._integers(result) or entry.origin
        if found.clipped > CLIPPED_SHARE * found.numel and error > CLIPPED_ERROR:
            entry.origin = self._add(CLIPPED, result, found.clipped / found.numel, 0.0)
            self._cure(entry.origin, result)
            return
        if error > NOTED:
            made = self._wrong(result)
        elif found.flushed > FLUSHED_SHARE * max(1, found.nonzero):
            made = self._flushed(result)
        if made is not None:
            entry.origin = made

    def integers(self, call: Call, held: torch.Tensor, reference: torch.Tensor) -> None:
        """Numbers became indices or counts: are they those that the reference makes?"""
        name = call.operator.schema_name
        if name not in INTEGERS_OF_FLOATS or not call.inputs:
            return
        if held.shape != reference.shape or not held.numel():
            return
        worst = max(call.inputs, key=lambda each: each.error)
        origin = worst.origin
        wrong = (held != reference).sum().item() / held.numel()
        if name != "aten::_to_copy":
            if wrong >= WRONG_INDICES:
                origin = self._wrong_indices(call, held, reference, wrong, origin)
        elif wrong >= WRONG_INTEGERS and origin is None and _are_whole(worst.reference):
            origin = self._wrong_ids(call, worst, held, reference, wrong)
        if origin is not None and wrong >= WRONG_INTEGERS:
            origin.reached("index", call.site.source, wrong)

    def _wrong_indices(
        self,
        call: Call,
        held: torch.Tensor,
        reference: torch.Tensor,
        share: float,
        origin: Finding | None,
    ) -> Finding | None:
        """The operator finds the place of numbers among others, and it is another one than with the
        references.
        """
        compared = compare(held.to(torch.float64), reference.to(torch.float64))
        if compared is None:
            return None
        result = Result(call, 0, held, reference.to(torch.float64), compared, origin)
        made = self._add(INTEGERS, result, share, 0.0, share)
        self._cure(made, result)
        if made.count == 1 and origin is None and (source := came_in(call.node)) is not None:
            made.detail["came_in"] = source.detail()
        return made

    def _wrong_ids(
        self,
        call: Call,
        worst: Input,
        held: torch.Tensor,
        reference: torch.Tensor,
        share: float,
    ) -> Finding | None:
        """Whole numbers lay in a tensor of fractions, as labels beside features, and come out of it
        as others: the conversion that rounded them is to blame, not the one that reads them.
        """
        compared = compare(held.to(torch.float64), reference.to(torch.float64))
        node = worst.node
        if compared is None or node is None:
            return None
        result = Result(call, 0, held, reference.to(torch.float64), compared, None)
        made = self._add(INTEGERS, result, share, 0.0, share)
        if made.count == 1:
            made.site, made.number = node.site, node.number
            made.dtype = types_of(node, worst.held)
        self._cure(made, result)
        return made

    def _inputs_worst(self, call: Call) -> tuple[float, int]:
        """The largest relative error of an input, and how bad inputs are: 0 finite, 1 infinite, 2
        NaN, 3 not finite here only. Measured on exactly the elements that went in.
        """
        error, rank = 0.0, 0
        for each in call.sources():
            found = each.compare()
            if found is None:
                continue
            if not each.noise:
                error = max(error, found.error)
            rank = max(rank, 3 if found.range else 2 if found.undefined else bool(found.infinite))
        return error, rank

    def _nonfinite(self, result: Result) -> Finding | None:
        call, found = result.call, result.found
        error, rank = self._inputs_worst(call)
        # Where the reference is not finite either, in this element or in another, the format is not
        # what makes it: at the root of a 0 that rounding alone makes it is chance which of them is.
        if found.range and not found.reference_only:
            if rank >= 2:
                return None
            made = self._add(RANGE, result, found.range / found.numel, error, math.inf)
            self._show(made, result)
            self._cure(made, result)
            return made
        if rank >= (2 if found.undefined else 1):
            return None if result.origin is not None else self._from_outside(result)
        args = (call.node.args, call.node.kwargs)
        if rank == 0 and not found.undefined and holds_nonfinite_number(args):
            return None  # a mask is filled in
        if rank == 1 and result.origin is None:
            outside = self._from_outside(result)
            if outside is not None:  # an infinity that was there before becomes NaN here
                return outside
        count = found.bad if found.reference_only else found.undefined + found.infinite
        made = self._add(UNDEFINED, result, count / found.numel, error, math.inf)
        self._show(made, result)
        self._exclude(made, result)
        return made

    def _exclude(self, made: Finding, result: Result) -> None:
        """The reference has it too: another precision does not help, unless what came in had been
        rounded.
        """
        node = result.call.node
        if made.count > 1:
            return
        try:
            if node.args is not None and decides(node, result.index, result.held):
                made.detail["rounded_before"] = True
                return
        except Exception as error:
            made.detail["cure"] = f"not tried: {type(error).__name__}"
        made.precision = EXCLUDED

    def _from_outside(self, result: Result) -> Finding | None:
        """What is not finite was there before the step began (a batch, weights), or in memory that
        nothing has written.
        """
        call = result.call
        for each in call.sources():
            made_at = self._unwritten.of(each.tensor)
            if each.node is not None and made_at is None:
                continue
            own = each.compare()
            if own is None or not (own.undefined or (own.infinite and bool((each.held > 0).any()))):
                continue
            outside = replace(result, found=own)
            made = self._add(UNDEFINED, outside, own.bad / own.numel, 0.0, math.inf)
            if made.count == 1:
                carriers.tell(made, each.tensor, self._names(each.tensor), made_at)
            return made
        return None

    def _follow_loop(self, call: Call, error: float) -> None:
        """Fills in the node's `entered` and `fed`: a loop over this line makes its error in many
        small portions.
        """
        node = call.node
        node.entered = error
        for each in call.sources():
            before = each.node
            if before is not None and before.site.key == call.site.key:
                others = [other for other in call.sources() if other is not each]
                found = [other.compare() for other in others if not other.noise]
                fed = max((each.error for each in found if each is not None), default=0.0)
                node.entered = min(error, before.entered)
                node.fed = max(fed, before.fed or 0.0)
                return

    def _wrong(self, result: Result) -> Finding | None:
        call, found = result.call, result.found
        error = found.error
        error_in, rank = self._inputs_worst(call)
        self._follow_loop(call, error_in)
        entered = call.node.entered
        times = AMPLIFICATION if error > WRONG else NOTED_AMPLIFICATION
        if rank == 3 or error < times * entered:
            return None
        flushed = (
            found.squared_flushed > 0.5 * found.squared_error and _underflows(result, 0.0) > 0.5
        )
        kind = FLUSHED if flushed else AMPLIFIED
        share = found.flushed / max(1, found.nonzero) if flushed else 1.0
        made = self._add(kind, result, share, entered)
        if made.count == 1 and result.origin is None and entered > 0:
            source = came_in(call.node)
            if source is not None and source.site.source != call.site.source:
                made.detail["came_in"] = source.detail()
        self._cure(made, result)
        if made.precision == NOT_TESTED and call.node.fed is not None:
            cure_loop(made, call.node, error)
        return made

    def _is_noise_of_elements(self, result: Result) -> bool:
        error = max(NOTED, NOTED_AMPLIFICATION * self._inputs_worst(result.call)[0])
        if result.found.error <= error:
            return False
        return is_noise_of_elements(result, self._references, error)

    def _flushed(self, result: Result) -> Finding | None:
        """Many elements, and little of the whole: they count if they are not tiny."""
        found = result.found
        floor = MATTERS * math.sqrt(found.squared_reference / found.numel)
        again = compare(result.held, result.reference, floor)
        if again is None or again.flushed < FLUSHED_SHARE * max(1, again.nonzero):
            return None
        if _underflows(result, floor) < 0.5:
            return None
        for each in result.call.sources():
            before = each.compare()
            if before is not None and before.flushed >= 0.5 * again.flushed:
                return None  # they were 0 before
        made = self._add(FLUSHED, result, again.flushed / max(1, again.nonzero), 0.0)
        self._cure(made, result)
        return made

    def _integers(self, result: Result) -> Finding | None:
        found, origin = result.found, result.origin
        if origin is not None and origin.kind == INTEGERS:
            return origin
        share = found.wrong_integers / found.numel
        if share < WRONG_INTEGERS or found.max_reference >= 2.0**53:
            return None
        for each in result.call.sources():
            before = each.compare()
            if before is None or not before.integers or before.wrong_integers:
                return None
        made = self._add(INTEGERS, result, share, 0.0)
        self._cure(made, result)
        return made

    def _add(
        self,
        kind: str,
        result: Result,
        share: float,
        error_in: float,
        error_out: float | None = None,
    ) -> Finding:
        call, held, found = result.call, result.held, result.found
        return self.findings.add(
            Finding(
                kind=kind,
                site=call.site,
                number=call.node.number,
                dtype=type_words((each.held.dtype for each in call.sources()), held.dtype),
                shape=str(list(held.shape)),
                share=share,
                magnitude=found.max_reference,
                error_in=error_in,
                error_out=found.error if error_out is None else error_out,
                parents=() if result.origin is None else (result.origin,),
            )
        )

    def _show(self, made: Finding, result: Result) -> None:
        if made.count > 1:
            return
        shown = operands(result)
        if shown is not None:
            made.detail["operands"] = shown
        if before := lines_before(result.call.node):
            made.detail["inputs_from"] = before

    def _cure(self, made: Finding, result: Result) -> None:
        node = result.call.node
        if made.count > 1 or made.cure is not None or node.args is None:
            return
        began = time.perf_counter()
        deadline = began + max(0.0, MOST_CURE_SECONDS - self._cure_seconds)
        kind = result.held.dtype
        try:
            find_cure(made, node, result.index, result.reference, self._errors, kind, deadline)
        except Exception as error:
            made.detail["cure"] = f"not tried: {type(error).__name__}"
        self._cure_seconds += time.perf_counter() - began


def _underflows(result: Result, floor: float) -> float:
    """The share of what became 0 (of at least `floor`) that the type has no number for. The rest
    was rounded away before, as the derivative of a gate whose value is 1 in 16 bits.
    """
    smallest = torch.finfo(result.held.dtype).smallest_normal * torch.finfo(result.held.dtype).eps
    zeros = compare(result.held, result.reference, floor)
    above = compare(result.held, result.reference, max(floor, smallest))
    if zeros is None or above is None or not zeros.flushed:
        return 0.0
    return 1.0 - above.flushed / zeros.flushed
