"""One shadow step: from the end of an optimizer's step to the end of the next one, and what follows
that until the model runs again. Collects what findings reach, and says what each is worth.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils import _python_dispatch

from ..fp64.call import floats
from ..fp64.comparison import MATTERS_LOSS, Comparison, compare
from ..fp64.findings import (
    AMPLIFIED,
    FLUSHED,
    INTEGERS,
    LOST_CHANGE,
    NOT_TESTED,
    RANGE,
    UNDEFINED,
    Finding,
)
from ..fp64.history import is_float
from ..fp64.noise import cancelled_share
from ..fp64.places import Places, Site
from ..fp64.references import Entry
from ..model.shards import local_part
from .changes import Changes
from .engine import ShadowMode
from .judge import FLUSHED_SHARE, MATTERS, WRONG

_without_modes: Any = _python_dispatch._disable_current_modes

# Parts of the whole from which on an error counts. Squares: 0.01 is a tenth in the norm.
LOSS_ERROR = 0.05
GRADIENT_SHARE = 0.01
UPDATE_SHARE = 0.01
STATE_ERROR = 0.2
OUTPUT_ERROR = 0.2
OWN_ERROR = 1.0  # of one parameter's gradient, if it is not tiny beside the others
OWN_SIZE = 0.1
BUFFER_SIZE = 1e-3  # of the largest buffer beside it, that a buffer's error must be at least
# A skipped step at a loss scale above this is part of the search for one; a scale as small gives
# FP16 no room for gradients any more.
SEARCHED_SCALE = 16.0


class ShadowStep:
    """`names`: of parameters and buffers by their memory. `first_loss`: the magnitude of the run's
    first losses, beside which a loss may be too small to matter.
    """

    def __init__(
        self,
        number: int,
        modules: dict[int, str],
        changes: Changes,
        first_loss: float | None,
        trouble: Callable[[Exception], None],
        most_bytes: int,
    ) -> None:
        self.number = number
        self.places = Places(modules)
        self._changes = changes
        self._trouble = trouble
        self._first_loss = first_loss
        self.loss: float | None = None
        self.started = time.perf_counter()
        self.mode = ShadowMode(self.places, changes, trouble, most_bytes)
        self.mode.read = self._read
        changes.begin(number)

    # --- what happens in the step ---

    def backward_begins(self, losses: Iterable[torch.Tensor]) -> None:
        """`losses` are about to be derived."""
        losses = [each for each in losses if is_float(each)]
        references = self.mode.references
        followed = bool(losses) and self.mode.looking and self.mode.followed.history
        self.mode.coverage.derives(
            followed and all(references.entry(each) is not None for each in losses)
        )
        for loss in losses:
            entry = references.entry(loss)
            reference = references.of(loss)
            if entry is None or reference is None:
                self._loss_outside(loss)
                continue
            found = compare(loss, reference)
            if found is None:
                continue
            self.loss = found.max_reference
            if entry.origin is None:
                continue
            if found.bad:
                entry.origin.reached("loss", "", math.inf)
            elif found.error > LOSS_ERROR and not self._converged(found.max_reference):
                entry.origin.reached("loss", "", found.error)

    def _loss_outside(self, loss: torch.Tensor) -> None:
        """A loss that is not followed."""
        size = loss.detach().abs().max().item() if loss.numel() else 0.0
        if math.isfinite(size):
            self.loss = size
        else:
            self._reached_alone("loss", math.inf)

    def _reached_alone(self, what: str, error: float) -> None:
        """Something is not finite, in a step in which each operator was followed by itself: what
        became of its result is not known.
        """
        if self.mode.followed.history:
            return
        for each in self.mode.judge.findings.all():
            if each.kind in (RANGE, UNDEFINED):
                each.reached(what, "", error)

    def _converged(self, loss: float) -> bool:
        return self._first_loss is not None and loss < MATTERS_LOSS * self._first_loss

    def site_of(self, sequence: int) -> Site | None:
        """Where the node of autograd with this number was made."""
        place = self.places.place_of(sequence)
        if place is None:
            return None
        phase = "forward" if place.module is not None else "loss"
        return Site(place.operator, place.operator, phase, place.file, place.line, place.module)

    def reach_outputs(self, outputs: Any) -> None:
        """What a module that was run again gives back."""
        for output in floats(outputs):
            entry = self.mode.references.entry(output)
            if entry is not None and entry.origin is not None:
                entry.origin.reached("output", "", entry.error)

    def reach_gradients(self, gradients: Iterable[tuple[str, torch.Tensor | None]]) -> None:
        """Gradients of a backward pass that was run again."""
        for name, gradient in gradients:
            entry = None if gradient is None else self.mode.references.entry(gradient)
            if entry is not None and entry.origin is not None and math.isinf(entry.error):
                entry.origin.reached("gradient", name, math.inf)

    def gradients(
        self, parameters: Iterable[tuple[str, torch.Tensor]], scale: float | None = None
    ) -> None:
        """An optimizer is about to use the gradients of `parameters`. `scale`: it is not, the loss
        scale was this and a gradient was not finite.
        """
        self._left_gradients(scale)
        rows = []
        squares = 0.0
        numel = 0
        for name, parameter in parameters:
            gradient = local_part(parameter.grad)
            if gradient is None or not is_float(gradient):
                continue
            entry = self.mode.references.entry(gradient)
            reference = self.mode.references.of(gradient)
            found = None
            if entry is not None and reference is not None:
                found = compare(gradient, reference)
            if scale is None:
                compared = found is not None and self.mode.followed.history
                self.mode.coverage.uses(name, local_part(parameter), compared)
            if entry is None or reference is None or found is None:
                continue
            if scale is None:
                self._cancels(name, gradient, found)
            rows.append((name, gradient, reference, entry, found))
            squares += found.squared_reference
            numel += found.numel
        if not numel:
            return
        mean = math.sqrt(squares / numel)
        by_origin: dict[int, tuple[Finding, float]] = {}
        for name, gradient, reference, entry, found in rows:
            origin = entry.origin
            if origin is None:
                continue
            if found.bad:
                if scale is None or scale <= SEARCHED_SCALE or origin.kind == UNDEFINED:
                    origin.reached("gradient", name, math.inf)
                continue
            if scale is not None or self._small_loss():
                continue
            own = math.sqrt(found.squared_reference / found.numel)
            if found.error >= OWN_ERROR and own > OWN_SIZE * mean:
                origin.reached("gradient", name, found.error)
            floor = MATTERS * own
            flushed = found.flushed > FLUSHED_SHARE * max(1, found.nonzero)
            if origin.kind == FLUSHED and flushed and own > OWN_SIZE * mean:
                again = compare(gradient, reference, floor)
                if again is not None and again.flushed > FLUSHED_SHARE * max(1, again.nonzero):
                    origin.reached("gradient", name, again.flushed / max(1, again.nonzero))
            key = id(origin)
            _, so_far = by_origin.get(key, (origin, 0.0))
            by_origin[key] = (origin, so_far + found.squared_error)
        for origin, error in by_origin.values():
            if error > GRADIENT_SHARE * squares:
                origin.reached("gradient", "", math.sqrt(error / max(squares, 1e-300)))

    def _cancels(self, name: str, gradient: torch.Tensor, found: Comparison) -> None:
        zero = self.mode.dependencies.zero_of(gradient)
        share = cancelled_share(gradient, found, self.mode.references, zero)
        if share > 0:
            self.mode.coverage.cancels(name, share)

    def _left_gradients(self, scale: float | None) -> None:
        """Gradients that went on to layers that are not followed."""
        if scale is not None and scale <= SEARCHED_SCALE:
            self._reached_alone("gradient", math.inf)
        for origin, error in self.mode.followed.left_gradients:
            if math.isinf(error):
                if scale is None or scale <= SEARCHED_SCALE or origin.kind == UNDEFINED:
                    origin.reached("gradient", "", error)
            elif scale is None and not self._small_loss():
                origin.reached("gradient", "", error)
        self.mode.followed.left_gradients.clear()

    def _small_loss(self) -> bool:
        return self.loss is not None and self._converged(self.loss)

    def _read(self, tensor: torch.Tensor, entry: Entry) -> None:
        """The program reads a number."""
        if entry.origin is None or entry.error < OUTPUT_ERROR:
            return
        site = self.places.find("aten._local_scalar_dense", keep=False)
        entry.origin.reached("output", site.source if site else "", entry.error)

    # --- the end ---

    def finish(self, states: Iterable[tuple[str, torch.Tensor]]) -> list[Finding]:
        """The step is over. `states`: buffers by name. What was found and
        counts, the worst first.
        """
        mode = self.mode
        mode.looking = False
        mode.history.clear()  # what only it kept alive goes
        try:
            self._reach_states(states)
            update = self._changes.update
            for origin, error in update.by_origin.values():
                if error > UPDATE_SHARE * update.squared_change and not self._small_loss():
                    origin.reached(
                        "state", "weights", math.sqrt(error / max(update.squared_change, 1e-300))
                    )
            with _without_modes():  # the program may make fake tensors at this moment
                lost = self._changes.finish(mode.references, mode.operators + 1, self._small_loss())
        except Exception as error:
            self._trouble(error)
            lost = []
        found = mode.judge.findings.all() + lost
        for each in found:
            _rate(each)
            _follow(each)
            if each.severity == "WARNING" and self._is_settled() and not _looks_settled(each):
                each.severity = "INFO"
        mode.references.clear()
        return sorted((each for each in found if _counts(each)), key=Finding.order)

    def _is_settled(self) -> bool:
        """Whether the exact update, too, is smaller than the weights can hold in FP32: there is
        nothing left to learn, and errors are errors of what rounding leaves.
        """
        update = self._changes.update
        return 0 < update.squared_change < (2.0**-23) ** 2 * update.squared_weight

    def _reach_states(self, states: Iterable[tuple[str, torch.Tensor]]) -> None:
        """`states`: buffers by name. A mean that is 0 but for rounding means something only beside
        the variance: errors count against the largest buffer of the same module.
        """
        rows = []
        sizes: dict[str, float] = {}
        for name, tensor in states:
            owner = name.rpartition(".")[0]
            for each in floats(tensor):
                reference = self.mode.references.of(each)
                found = None if reference is None else compare(each, reference)
                if found is None or not found.numel:
                    continue
                size = math.sqrt(found.squared_reference / found.numel)
                sizes[owner] = max(size, sizes.get(owner, 0.0))
                rows.append((name, owner, self.mode.references.entry(each), found))
        for name, owner, entry, found in rows:
            if entry is None or entry.origin is None:
                continue
            error = math.sqrt(found.squared_error / found.numel)
            if found.bad:
                entry.origin.reached("state", name, math.inf)
            elif found.error > STATE_ERROR and error > BUFFER_SIZE * sizes[owner]:
                if not self._small_loss():
                    entry.origin.reached("state", name, found.error)


def _rate(finding: Finding) -> None:
    if all(what == "replaced" for what, _ in finding.reach) or _is_note(finding):
        finding.severity = "INFO"
    elif finding.kind in (RANGE, UNDEFINED) and not finding.is_discarded:
        finding.severity = "ERROR"
    else:
        finding.severity = "WARNING"


def _follow(finding: Finding) -> None:
    """Out of range because of values that were wholly wrong before: what cures those cures this."""
    if finding.kind != RANGE or finding.precision != NOT_TESTED:
        return
    for each in finding.ancestors():
        if each.cure is not None and each.error_out >= OWN_ERROR:
            finding.cure, finding.precision = each.cure, each.precision
            return


def _is_note(finding: Finding) -> bool:
    """Made here, and yet not wrong: what is far off later has more than this one behind it. But a
    batch that is far off has come all the way from here.
    """
    if ("input", "") in finding.reach:
        return False
    return finding.kind in (AMPLIFIED, FLUSHED) and finding.error_out < WRONG


def _looks_settled(finding: Finding) -> bool:
    """Whether it can be what makes a training look settled: 16-bit weights that stand still for
    want of resolution, or a size of the step that was decided the other way.
    """
    if finding.kind == LOST_CHANGE:
        return finding.dtype != "float32"
    return any(what == "decision" for what, _ in finding.reach)


def _counts(finding: Finding) -> bool:
    """What reaches nothing is worth a note at most, and an infinity that is thrown away is none."""
    return bool(finding.reach) or finding.kind not in (RANGE, UNDEFINED, LOST_CHANGE, INTEGERS)
