"""Changes that get lost: in-place operators on what outlives a step (weights, averages, counters,
buffers), whose result is the value that was there before.

One lost change means nothing: the next may be larger. So they are followed over the shadow steps of
a run, and reported when a tensor keeps losing most of what it should change by. A change is not
lost where another living tensor holds what is missing, be it a wider copy (master weights) or the
missing part itself (Kahan's compensation): that is looked for among the values, not by names. Nor
is it lost where rounding goes up and down at random, so that the sum of the changes is right.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from .comparison import HALF_ULP, Change
from .findings import LOST_CHANGE, PROVEN, Finding
from .history import is_backed
from .places import Site
from .references import Entry, References

LOST = 0.5  # of the sum of the changes
OF_ALL = 1e-3  # of all that changes the tensor in the step, that the line's change must be at least
STEPS = 3  # one after the other in which it was lost


@dataclass(slots=True)
class _Seen:
    """One tensor that one line changes, in one step."""

    site: Site
    tensor: Callable[[], torch.Tensor | None]
    reference: torch.Tensor
    entry: Entry
    number: int  # of the operator
    name: str
    change: float = 0.0
    lost: float = 0.0
    kept: float = 0.0
    numel: int = 0
    stayed: int = 0

    @property
    def is_lost(self) -> bool:
        return self.lost > LOST * self.change and self.kept < LOST * self.change

    @property
    def is_wide(self) -> bool:
        """In FP32 and wider most that is lost is too small to matter, as of a gate that has closed
        in the course of the training: counted only where it has been so most of the time.
        """
        return self.entry.element in (torch.float32, torch.float64)


@dataclass(slots=True)
class _Course:
    """The same over the shadow steps of the run."""

    steps: int = 0  # in which there was a change
    lost: int = 0  # the newest of these, without a break
    since: int = 0  # the first of those, as a training step
    share: float = 0.0


@dataclass(slots=True)
class Update:
    """What all changes of the weights in a step add up to."""

    squared_change: float = 0.0
    squared_error: float = 0.0
    squared_weight: float = 0.0  # of the weights that changed
    by_origin: dict[int, tuple[Finding, float]] = field(default_factory=dict)


class Changes:
    """Of one run. `names`: of parameters and buffers by their memory."""

    def __init__(self, names: Callable[[int], str | None]) -> None:
        self._names = names
        self._courses: dict[tuple[Any, ...], _Course] = defaultdict(_Course)
        self._seen: dict[tuple[Any, ...], _Seen] = {}
        self.update = Update()
        self._step = 0  # that is under way

    def name(self, tensor: torch.Tensor) -> str:
        """Of a parameter or buffer, "" of anything else."""
        return self._names(tensor.untyped_storage()._cdata) or ""

    def begin(self, step: int) -> None:
        self._step = step
        self._seen.clear()
        self.update = Update()

    def see(
        self,
        site: Site,
        number: int,
        index: int,
        tensor: torch.Tensor,
        reference: torch.Tensor,
        entry: Entry,
        change: Change,
    ) -> None:
        memory = tensor.untyped_storage()._cdata
        name = self._names(memory)
        if name is not None:
            self._add_update(entry, change)
        key = (site.key, name or index)
        seen = self._seen.get(key)
        if seen is None:
            alias = tensor.detach()
            seen = self._seen[key] = _Seen(
                site, lambda: alias, reference, entry, number, name or "", numel=change.numel
            )
        seen.change += change.change
        seen.lost += change.lost_change
        seen.kept += change.kept_change
        seen.stayed = change.lost

    def _add_update(self, entry: Entry, change: Change) -> None:
        update = self.update
        if entry.comparison is not None:
            update.squared_weight += entry.comparison.squared_reference
        update.squared_change += change.squared_change
        update.squared_error += change.squared_error
        if entry.origin is not None:
            key = id(entry.origin)
            _, sum_so_far = update.by_origin.get(key, (entry.origin, 0.0))
            update.by_origin[key] = (entry.origin, sum_so_far + change.squared_error)

    def finish(self, references: References, number: int, converged: bool) -> list[Finding]:
        """The step is over: what has been lost for some time. `converged`: the loss is so small
        that there is nothing left to change.
        """
        found: dict[Any, Finding] = {}
        if converged:
            self._seen.clear()
            return []
        whole: dict[int, float] = defaultdict(float)
        for seen in self._seen.values():
            whole[id(seen.entry)] += seen.change
        for key, seen in self._seen.items():
            if seen.change < OF_ALL * whole[id(seen.entry)]:
                continue
            course = self._courses[key]
            course.steps += 1
            if not seen.is_lost or self._is_elsewhere(seen, references):
                course.lost = 0
                continue
            course.lost += 1
            if course.lost == 1:
                course.since = self._step
            course.share = max(course.share, seen.lost / seen.change)
            if course.lost < STEPS or (seen.is_wide and course.lost < course.steps / 2):
                continue
            finding = found.get(seen.site.key)
            if finding is None:
                found[seen.site.key] = finding = self._finding(seen, number, course)
            finding.reach["state", seen.name] = seen.lost / seen.change
        self._seen.clear()
        return list(found.values())

    def _finding(self, seen: _Seen, number: int, course: _Course) -> Finding:
        tensor = seen.tensor()
        assert tensor is not None
        finding = Finding(
            kind=LOST_CHANGE,
            site=seen.site,
            number=number,
            dtype=str(tensor.dtype)[6:],
            shape=str(list(tensor.shape)),
            share=seen.lost / seen.change,
            magnitude=seen.reference.abs().max().item(),
            error_in=0.0,
            error_out=seen.lost / seen.change,
            precision=PROVEN,
        )
        finding.detail = {
            "steps": course.steps,
            "lost_in": course.lost,
            "since": course.since,
            "half_ulp": HALF_ULP.get(tensor.dtype, 0.0),
            "relative_change": seen.change
            / max(1, seen.numel)
            / max(1e-300, seen.reference.abs().mean().item()),
        }
        return finding

    def _is_elsewhere(self, seen: _Seen, references: References) -> bool:
        """Whether another living tensor holds what this one has lost."""
        tensor = seen.tensor()
        if tensor is None or not is_backed(tensor):
            return False
        missing = seen.reference - tensor.to(torch.float64)
        size = missing.norm()
        if not size.isfinite() or not size:
            return False
        own = tensor.untyped_storage()._cdata
        for entry in references.living():
            if entry is seen.entry or entry.base.numel() != tensor.numel():
                continue
            other = _held(entry)
            if other is None or other.untyped_storage()._cdata == own:
                continue
            other = other.to(torch.float64).as_strided(tensor.shape, tensor.stride(), 0)
            if (other - seen.reference).norm() < 0.5 * size:
                return True  # the whole value, more precisely
            # What was missing is put aside after it got lost; before, it is the change itself.
            later = entry.node is not None and entry.node.number > seen.number
            for candidate in (other - missing, other + missing) if later else ():
                if candidate.norm() < 0.5 * size:
                    return True
        return False


def _held(entry: Entry) -> torch.Tensor | None:
    """The whole memory of an entry as a flat tensor; None once it is gone."""
    storage = torch.UntypedStorage._new_with_weak_ptr(entry.alive.cdata)
    if storage is None or not storage.nbytes():
        return None
    flat = torch.empty(0, dtype=entry.element, device=storage.device)
    count = storage.nbytes() // entry.element.itemsize
    return flat.set_(storage, 0, torch.Size((count,)), (1,))
