"""Changes that get lost: in-place operators on what outlives a step (weights, averages, counters,
buffers), whose result is the value that was there before.

One lost change means nothing: the next may be larger. So they are followed over the shadow steps of
a run, and reported when a tensor keeps losing most of what it should change by. Where several lines
write a weight in a step, it is also looked at what they come to together: a line may take back what
another one has done right.

A change is not lost where another state of the training holds what is missing (elsewhere), nor
where rounding goes up and down at random, so that the sum of the changes is right.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ..fp64.comparison import HALF_ULP, Change, compare_change
from ..fp64.elsewhere import Elsewhere
from ..fp64.findings import LOST_CHANGE, PROVEN, Finding
from ..fp64.history import Node, is_backed
from ..fp64.places import Site
from ..fp64.references import Entry, References
from ..fp64.unwritten import Unwritten
from ..fp64.witness import CameIn, came_in
from ..model.shards import local_part
from .random_rounding import RandomRounding

LOST = 0.5  # of the sum of the changes
OF_ALL = 1e-3  # of all that changes the tensor in the step, that the line's change must be at least
ROUNDINGS = 4  # of a value in one line of an optimizer
STEPS = 3  # one after the other in which it was lost
SAMPLE = 1 << 14  # numbers of a weight, by which the lines of a step are looked at together


@dataclass(slots=True)
class _Seen:
    """One tensor that one line changes, in one step."""

    site: Site
    tensor: Callable[[], torch.Tensor | None]
    reference: torch.Tensor
    entry: Entry
    number: int  # of the operator
    name: str
    source: tuple[torch.Tensor, Entry] | None  # what it was copied from, where it was
    change: float = 0.0
    lost: float = 0.0
    kept: float = 0.0
    numel: int = 0
    stayed: int = 0

    @property
    def stays(self) -> bool:
        """Most of what should have changed it has left it as it was."""
        return self.lost > LOST * self.change

    @property
    def is_lost(self) -> bool:
        return self.stays and self.kept < LOST * self.change

    @property
    def is_wide(self) -> bool:
        """In FP32 and wider most that is lost is too small to matter, as of a gate that has closed
        in the course of the training: counted only where it has been so most of the time.
        """
        return self.entry.element in (torch.float32, torch.float64)

    def came_in_lost(self, tensor: torch.Tensor) -> bool:
        """Whether more was lost than rounding here can lose, which is half an ulp of each number in
        every operation: what comes in had lost it already, as a gradient that was rounded to 0.
        """
        if self.site.phase != "optimizer" or tensor.dtype not in HALF_ULP:
            return False
        size = tensor.detach().abs().sum(dtype=torch.float64).item()
        return self.lost > ROUNDINGS * HALF_ULP[tensor.dtype] * size


@dataclass(slots=True)
class _Weight:
    """A weight in one step, from before the first line that changes it."""

    before: torch.Tensor  # some of its numbers
    was: torch.Tensor  # of its reference
    layout: tuple[Any, ...]  # of the tensor that the first line changes
    newest: _Seen
    lines: set[Any] = field(default_factory=set)
    in_parts: bool = False  # other lines change other parts of its memory


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
        self._weights: dict[str, _Weight] = {}
        self._kept: set[str] = set()  # weights whose lost changes are not lost
        self._elsewhere = Elsewhere()
        self._rounding = RandomRounding()
        self.unwritten = Unwritten()
        self.rounds_weights: CameIn | None = None  # what weights are rounded by between updates
        self.update = Update()
        self._step = 0  # that is under way

    def name(self, tensor: torch.Tensor) -> str:
        """Of a parameter or buffer, "" of anything else."""
        return self._names(tensor.untyped_storage()._cdata) or ""

    def is_kept(self, tensor: torch.Tensor) -> bool:
        """Whether a weight that stays where it is loses nothing by that, as the newest shadow step
        has measured: another state holds what is missing, or rounding goes up and down at random.
        """
        return self.name(local_part(tensor)) in self._kept

    @property
    def followed(self) -> set[str]:
        """The weights whose changes in this step were compared."""
        return set(self._weights)

    def begin(self, step: int) -> None:
        self._step = step
        self._forget()
        self.update = Update()

    def _forget(self) -> None:
        self._seen.clear()
        self._weights.clear()

    def weights_rounded(self, node: Node) -> None:
        """`node` has written a weight, and it is no optimizer's."""
        self.rounds_weights = came_in(node) or self.rounds_weights

    def see(
        self,
        site: Site,
        number: int,
        index: int,
        tensor: torch.Tensor,
        reference: torch.Tensor,
        entry: Entry,
        change: Change,
        before: torch.Tensor,
        was: torch.Tensor,
        source: tuple[torch.Tensor, Entry] | None,
    ) -> None:
        """An operator has changed `tensor`, which was `before`, and its `reference`, which `was`;
        `source`: it was copied from there.
        """
        memory = tensor.untyped_storage()._cdata
        name = self._names(memory)
        if name is not None:
            self._add_update(entry, change)
        key = (site.key, name or index)
        seen = self._seen.get(key)
        if seen is None:
            alias = tensor.detach()
            seen = self._seen[key] = _Seen(
                site,
                lambda: alias,
                reference,
                entry,
                number,
                name or "",
                source,
                numel=change.numel,
            )
        seen.change += change.change
        seen.lost += change.lost_change
        seen.kept += change.kept_change
        seen.stayed = change.lost
        if name is not None:
            weight = self._weights.get(name)
            if weight is None:
                weight = self._weights[name] = _Weight(
                    _sample(before), _sample(was), _layout(tensor), seen
                )
            weight.in_parts = weight.in_parts or weight.layout != _layout(tensor)
            weight.newest = seen
            weight.lines.add(site.key)

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
            self._forget()
            return []
        whole: dict[int, float] = defaultdict(float)
        for seen in self._seen.values():
            whole[id(seen.entry)] += seen.change
        lines: dict[tuple[Any, ...], _Seen] = dict(self._seen)
        lines |= {("together", name): each for name, each in self._together().items()}
        lost = [seen for seen in lines.values() if seen.is_lost]
        excused = self._elsewhere.held(self._step, lost, references)
        self._kept |= self._rounding.look(self._step, self._moved())
        for key, seen in lines.items():
            if seen.change < OF_ALL * whole[id(seen.entry)]:
                continue
            course = self._courses[key]
            course.steps += 1
            if not seen.is_lost or id(seen) in excused:
                course.lost = 0
                if seen.stays and seen.name:
                    self._kept.add(seen.name)
                continue
            self._kept.discard(seen.name)
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
        self._forget()
        return list(found.values())

    def _moved(self) -> Iterable[tuple[str, Any, torch.Tensor, torch.Tensor]]:
        for name, weight in self._weights.items():
            tensor, site = weight.newest.tensor(), weight.newest.site
            if tensor is not None and is_backed(tensor) and not weight.in_parts:
                yield name, (site.file, site.line), weight.before, _sample(tensor)

    def _together(self) -> dict[str, _Seen]:
        """What several lines come to, of the weights that they change; at the last one of them. Not
        where one of them has lost its own part already.
        """
        lost = {seen.name for seen in self._seen.values() if seen.is_lost}
        found: dict[str, _Seen] = {}
        for name, weight in self._weights.items():
            seen = weight.newest
            tensor = seen.tensor()
            if len(weight.lines) < 2 or weight.in_parts or name in lost:
                continue
            if tensor is None or not is_backed(tensor):
                continue
            now = _sample(tensor), _sample(seen.reference)
            change = compare_change(weight.before, now[0], weight.was, now[1])
            if change is None or not change.moved:
                continue
            found[name] = replace(
                seen,
                change=change.change,
                lost=change.lost_change,
                kept=change.kept_change,
                numel=change.numel,
                stayed=change.lost,
            )
        return found

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
        if seen.came_in_lost(tensor):
            finding.detail["lost_before"] = True
        return finding


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.stride(), tensor.storage_offset()


def _sample(tensor: torch.Tensor) -> torch.Tensor:
    """Some of its numbers, the same ones each time, in memory of their own."""
    flat = tensor.detach()
    if flat.is_complex():
        flat = torch.view_as_real(flat.resolve_conj())
    if flat.numel() > SAMPLE:
        flat = flat.flatten()[:: flat.numel() // SAMPLE][:SAMPLE]
    return flat.clone()
