"""Gradients that another optimizer's loss has left: a backward pass gives a gradient to parameters
of an optimizer B, another optimizer steps on that pass, a further pass adds to what is there, and B
steps on the sum (a critic that keeps the gradients of the generator's loss).

Heard are all optimizers and backward passes of the training's thread, also those of other models.
Nothing is read before a second optimizer has stepped, and only around the next MOST_PASSES backward
passes: then a few numbers of each gradient, before and after a pass, from which follow what it
added to which parameters, and whether something was zeroed before.

Right are several losses that are added up for one update, one pass on which several optimizers
step, and an optimizer that steps less often than another one of the same passes: there the last
pass serves an optimizer, too, that has nothing of an earlier one.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from ..fp64.findings import EXCLUDED, NOT_ZEROED, Finding
from ..fp64.places import Site, find_call
from ..hooks import taps
from ..model.samples import gradient_numbers, may_read
from ..model.watched import WatchedModel
from ..operators.modes import others_on
from ..steps.listeners import StepListener
from ..steps.reading import graph_task_id
from ..steps.step import OpenStep
from ..steps.thread import StepThread

NEEDED = 3  # steps of the optimizer
MOST_PASSES = 96
MOST_OPTIMIZERS = 8
LEAST = 0.01  # of the norm


@dataclass(slots=True)
class _Pass:
    """A backward pass that has added to an optimizer's gradients since they were zeroed."""

    number: int
    place: str  # file:line of backward()
    served: bool = False  # another optimizer has stepped on it


@dataclass(slots=True)
class _Mixed:
    """Gradients of two passes, of which the first was another optimizer's."""

    share: float  # of the norm, that of before
    earlier: str
    later: str


@dataclass(slots=True)
class _Holder:
    """Of one optimizer."""

    passes: list[_Pass] = field(default_factory=list)
    before: torch.Tensor | None = None  # its gradients when the pass under way began
    mixed: _Mixed | None = None
    found: list[_Mixed] = field(default_factory=list)
    cleared: bool = False  # gradients of another one's pass were zeroed in time, at least once
    said: bool = False


@dataclass(slots=True)
class _Stepped:
    """An optimizer's step on the newest pass."""

    optimizer: weakref.ref[Any]
    used_it: bool  # that pass has given it gradients
    mixed: _Mixed | None


class _Ears(taps.SomeCalls):
    def __init__(self, stale: StaleGradients) -> None:
        self._stale = stale

    def heard_backward(self, losses: Any) -> None:
        self._stale.safe(self._stale.pass_begins)

    def heard_backward_ended(self) -> None:
        self._stale.safe(self._stale.pass_ends)

    def heard_optimizer_step(self, optimizer: Any, closure: bool) -> None:
        self._stale.safe(lambda: self._stale.steps(optimizer, closure))


class StaleGradients(StepListener):
    """`found(step, findings)` takes what there is to say of optimizers of `model`."""

    name = "gradients of other optimizers"

    def __init__(
        self,
        model: WatchedModel,
        thread: StepThread,
        found: Callable[[int, list[Finding]], None],
        trouble: Callable[[str, Exception], None],
    ) -> None:
        self._model = model
        self._thread = thread
        self._found = found
        self._trouble = trouble
        self._ears = _Ears(self)
        self._holders: weakref.WeakKeyDictionary[Any, _Holder] = weakref.WeakKeyDictionary()
        self._number = 0  # of the training step
        self._passes = 0  # so far
        self._looked = 0  # of them
        self._stepped: list[_Stepped] = []  # since the newest pass

    # --- the run ---

    def watch_begins(self) -> None:
        taps.add(self._ears)

    def step_begins(self, step: OpenStep) -> None:
        self._number = step.number

    def run_ends(self) -> None:
        self.safe(self._decide)
        self._stop()

    def forked(self) -> None:
        self._stop()

    def _stop(self) -> None:
        taps.remove(self._ears)
        self._holders.clear()

    def safe(self, call: Callable[[], None]) -> None:
        try:
            if not self._thread.is_here() or others_on() or not may_read():
                return
            with self._thread.reading() as quiet, torch.no_grad():
                if quiet:
                    call()
        except Exception as error:
            self._stop()
            self._trouble(self.name, error)

    # --- what is heard ---

    def pass_begins(self) -> None:
        if graph_task_id() != -1:  # inside of another one: activations that are computed again
            return
        self._decide()
        self._passes += 1
        if len(self._holders) < 2:
            return
        self._looked += 1
        if self._looked > MOST_PASSES:
            self._stop()
            return
        for optimizer, holder in list(self._holders.items()):
            if not self._may_read(optimizer):
                holder.before = None
                continue
            holder.before = gradient_numbers(optimizer)
            if holder.before is None or not holder.before.any():
                holder.cleared = holder.cleared or any(each.served for each in holder.passes)
                holder.passes, holder.mixed = [], None

    def pass_ends(self) -> None:
        if graph_task_id() != -1:
            return
        place = ""
        for optimizer, holder in list(self._holders.items()):
            before, holder.before = holder.before, None
            reads = before is not None and self._may_read(optimizer)
            after = gradient_numbers(optimizer) if reads else None
            if before is None or after is None or before.shape != after.shape:
                continue
            added = after - before
            size, kept = float(added.norm()), float(before.norm())
            if not math.isfinite(size + kept) or size == 0:
                continue
            if not place:
                line = find_call(None, {})
                place = f"{line.file}:{line.line}" if line.file else ""
            foreign = [each for each in holder.passes if each.served]
            if kept > 0 and foreign:
                share = kept / (kept + size)
                if holder.mixed is None or share > holder.mixed.share:
                    holder.mixed = _Mixed(share, foreign[-1].place, place)
            holder.passes.append(_Pass(self._passes, place))

    def steps(self, optimizer: Any, closure: bool) -> None:
        """`optimizer` is about to step."""
        if closure or graph_task_id() != -1 or len(self._holders) > MOST_OPTIMIZERS:
            self._stop()  # its passes are inside of the step, or the step inside of a pass
            return
        holder = self._holders.setdefault(optimizer, _Holder())
        used = {each.number for each in holder.passes}
        mixed = holder.mixed
        if mixed is not None:
            now = gradient_numbers(optimizer)
            if now is None or not now.any():  # zeroed after the pass
                mixed = None
        self._stepped.append(_Stepped(weakref.ref(optimizer), self._passes in used, mixed))
        holder.passes, holder.mixed = [], None
        own = _ids(optimizer)
        for other, each in list(self._holders.items()):
            if other is not optimizer and own.isdisjoint(_ids(other)):
                for one in each.passes:
                    one.served = one.served or one.number in used

    def _may_read(self, optimizer: Any) -> bool:
        """Another model's may have moved to another thread, and be derived there now."""
        return not taps.others_derive() or bool(_ids(optimizer) & self._model.parameter_ids)

    # --- what it means ---

    def _decide(self) -> None:
        """No optimizer steps on the newest pass any more."""
        stepped, self._stepped = self._stepped, []
        if any(each.used_it and each.mixed is None for each in stepped):
            return  # a pass for several optimizers, as those before it
        for each in stepped:
            optimizer = each.optimizer()
            holder = None if optimizer is None else self._holders.get(optimizer)
            if holder is None or each.mixed is None or each.mixed.share < LEAST:
                continue
            holder.found.append(each.mixed)
            if len(holder.found) >= NEEDED and not holder.cleared and not holder.said:
                holder.said = True
                if _ids(optimizer) & self._model.parameter_ids:
                    self._found(self._number, [_finding(holder.found)])


def _ids(optimizer: Any) -> set[int]:
    return {id(each) for group in optimizer.param_groups for each in group["params"]}


def _finding(found: list[_Mixed]) -> Finding:
    worst = max(found, key=lambda each: each.share)
    file, _, line = worst.later.rpartition(":")
    share = sorted(each.share for each in found)[len(found) // 2]
    return Finding(
        NOT_ZEROED,
        Site("backward", "", "backward", file, int(line or 0), None),
        0,
        "",
        "",
        share,
        math.nan,
        math.nan,
        math.nan,
        precision=EXCLUDED,
        severity="WARNING",
        detail={"steps": len(found), "share": share, "at": worst.earlier},
    )
