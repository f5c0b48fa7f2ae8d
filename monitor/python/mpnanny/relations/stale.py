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
from dataclasses import dataclass, field
from typing import Any

import torch

from ..fp64.findings import NOT_ZEROED, Finding
from ..fp64.places import Site, find_call
from ..hooks import taps
from ..model.optimizers import ids_of
from ..model.samples import gradient_numbers
from ..steps.context import RunContext
from ..steps.reading import graph_task_id
from .watcher import Found, LoopWatcher, fault, heard

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


class StaleGradients(LoopWatcher):
    """Says it of optimizers of the model."""

    name = "gradients of other optimizers"
    reads_gradients = True

    def __init__(self, run: RunContext, found: Found) -> None:
        super().__init__(run, found)
        self._holders: weakref.WeakKeyDictionary[Any, _Holder] = weakref.WeakKeyDictionary()
        self._passes = 0  # so far
        self._looked = 0  # of them
        self._stepped: list[_Stepped] = []  # since the newest pass

    def run_ends(self) -> None:
        self.safely(self._decide)
        self.stop()

    def stop(self) -> None:
        super().stop()
        self._holders.clear()

    # --- what is heard ---

    @heard
    def heard_backward_begins(self, losses: Any) -> None:
        if graph_task_id() != -1:  # inside of another one: activations that are computed again
            return
        self._decide()
        self._passes += 1
        if len(self._holders) < 2:
            return
        self._looked += 1
        if self._looked > MOST_PASSES:
            self.stop()
            return
        for optimizer, holder in list(self._holders.items()):
            if not self._may_read(optimizer):
                holder.before = None
                continue
            holder.before = gradient_numbers(optimizer)
            if holder.before is None or not holder.before.any():
                holder.cleared = holder.cleared or any(each.served for each in holder.passes)
                holder.passes, holder.mixed = [], None

    @heard
    def heard_backward_ended(self) -> None:
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

    @heard
    def heard_optimizer_begins(self, optimizer: Any, closure: bool) -> None:
        if closure or graph_task_id() != -1 or len(self._holders) > MOST_OPTIMIZERS:
            self.stop()  # its passes are inside of the step, or the step inside of a pass
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
        own = ids_of(optimizer)
        for other, each in list(self._holders.items()):
            if other is not optimizer and own.isdisjoint(ids_of(other)):
                for one in each.passes:
                    one.served = one.served or one.number in used

    def _may_read(self, optimizer: Any) -> bool:
        """Another model's may have moved to another thread, and be derived there now."""
        return not taps.others_derive() or bool(ids_of(optimizer) & self._model.parameter_ids)

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
                if ids_of(optimizer) & self._model.parameter_ids:
                    self._found(self._number, [_finding(holder.found)])


def _finding(found: list[_Mixed]) -> Finding:
    worst = max(found, key=lambda each: each.share)
    file, _, line = worst.later.rpartition(":")
    share = sorted(each.share for each in found)[len(found) // 2]
    site = Site("backward", "", "backward", file, int(line or 0), None)
    return fault(
        NOT_ZEROED, site, "WARNING", share, steps=len(found), share=share, at=worst.earlier
    )
