"""Whether what a weight has lost is held by another state of the training: a wider copy (master
weights), or the missing part itself (Kahan's compensation). Looked for among values, not by names.

A state is memory that was there before the step and was read in it, or memory of this step that
outlives it and is read in the next one, as where a program makes a new tensor each time. A
temporary holds the exact value for a moment, too, and is none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .comparison import HALF_ULP
from .history import is_backed
from .places import Site
from .references import Entry, References

CLOSE = 0.5  # of what is missing: the largest distance of what holds it
MOST = 0.5  # of what a line has lost: what has to be held for it to be no loss
# Memory is looked at whole only if it is that near by some of its numbers: what holds the missing
# part is far nearer.
NEAR = 1.0  # of what is missing
NUMBERS = 64


class Lost(Protocol):
    """A tensor that a line has left as it was."""

    @property
    def site(self) -> Site: ...
    @property
    def tensor(self) -> Callable[[], torch.Tensor | None]: ...
    @property
    def reference(self) -> torch.Tensor: ...
    @property
    def entry(self) -> Entry: ...
    @property
    def number(self) -> int: ...
    @property
    def source(self) -> tuple[torch.Tensor, Entry] | None:
        """What it was copied from."""


_Line = tuple[str, int]


class Elsewhere:
    """Of one run."""

    def __init__(self) -> None:
        self._pending: dict[_Line, list[StorageWeakRef]] = {}  # new states of the newest step
        self._step = -1  # that step
        self._is_read: dict[_Line, bool] = {}  # whether the next step has read such a state

    def held(self, step: int, lost: Iterable[Lost], references: References) -> set[int]:
        """Of the tensors that step `step` has lost changes of: the ids of those that are held by
        another state. A line is judged as a whole, single numbers go with its tensors: of one
        number every other number nearby would be a copy.
        """
        self._settle(step, references)
        candidates = [found for each in lost if (found := _candidate(each)) is not None]
        _look_around(candidates, references)
        sizes: dict[_Line, list[int]] = {}  # elements that were lost, and those that are held
        for each in candidates:
            size = sizes.setdefault(each.line, [0, 0])
            copied = _is_copied(each, references)
            if each.numel == 1 and not copied:
                continue
            size[0] += each.numel
            if copied or self._is_held(each, references):
                size[1] += each.numel
        return {
            id(each.lost)
            for each in candidates
            if sizes[each.line][1] and sizes[each.line][1] >= MOST * sizes[each.line][0]
        }

    def _settle(self, step: int, references: References) -> None:
        """What became of the new states of the step before."""
        pending, self._pending = self._pending, {}
        if step == self._step + 1:
            for line, memories in pending.items():
                self._is_read[line] = any(map(references.is_carried, memories))
        self._step = step

    def _is_held(self, lost: _Candidate, references: References) -> bool:
        temporary = self._is_read.get(lost.line) is False
        for entry, distances in lost.near:
            if temporary if entry.new else not references.is_carried(entry.alive):
                continue
            if not _holds(entry, lost, distances):
                continue
            if entry.new:
                if entry.alive.expired():
                    continue  # it was gone with the step
                self._pending.setdefault(lost.line, []).append(entry.alive)
            return True
        return False


@dataclass(slots=True)
class _Source:
    """What a lost tensor was copied from; figures as measured."""

    tensor: torch.Tensor
    entry: Entry
    rounds_to_it: bool = False  # what was copied is what is nearest to it
    has_its_value: bool = False  # it is the copy, in its own type
    distance: float = math.inf  # from the reference


@dataclass(slots=True)
class _Candidate:
    """A tensor that lost something, which may be elsewhere; figures as measured."""

    lost: Lost
    line: _Line
    tensor: torch.Tensor
    numel: int
    missing: float = 0.0  # norm of what is missing
    source: _Source | None = None
    # What is near it, and how far that is: from the reference, from what is missing, and from its
    # opposite.
    near: list[tuple[Entry, list[float]]] = field(default_factory=list)


def _candidate(lost: Lost) -> _Candidate | None:
    tensor = lost.tensor()
    if tensor is None or not is_backed(tensor):
        return None
    line = (lost.site.file, lost.site.line)
    found = _Candidate(lost, line, tensor.detach(), lost.reference.numel())
    if lost.source is not None:
        source, entry = lost.source
        if source.shape == tensor.shape and is_backed(source):
            found.source = _Source(source, entry)
    return found


def _look_around(lost: list[_Candidate], references: References) -> None:
    """Fills the figures of `lost`; waits for a device twice."""
    # Referred to until everything is measured, and no longer.
    memories = [
        _Memory(each, memory)
        for each in references.living()
        if (memory := _memory(each)) is not None
    ]
    _measure(lost, _near(lost, memories))


@dataclass(slots=True)
class _Memory:
    entry: Entry
    whole: torch.Tensor  # flat

    def laid_out_as(self, tensor: torch.Tensor) -> torch.Tensor:
        return self.whole.as_strided(tensor.shape, tensor.stride(), 0)


def _near(lost: list[_Candidate], memories: list[_Memory]) -> list[list[_Memory]]:
    """Of each of `lost` the memories that may hold what is missing."""
    by_size: dict[Any, tuple[list[int], list[int]]] = {}
    for at, each in enumerate(lost):
        by_size.setdefault(_key(each.tensor), ([], []))[0].append(at)
    for at, memory in enumerate(memories):
        if (key := _key(memory.entry.base)) in by_size:
            by_size[key][1].append(at)
    found: list[list[_Memory]] = [[] for _ in lost]
    groups = [(some, others) for some, others in by_size.values() if others]
    flags = [
        _nearness([lost[i] for i in some], [memories[k] for k in others]) for some, others in groups
    ]
    if not flags:
        return found
    flat = iter(torch.cat([each.flatten() for each in flags]).tolist())
    for some, others in groups:
        for i in some:
            own = lost[i].tensor.untyped_storage()._cdata
            for k in others:
                entry = memories[k].entry
                is_other = entry is not lost[i].lost.entry and entry.alive.cdata != own
                if next(flat) and is_other:
                    found[i].append(memories[k])
    return found


def _key(tensor: torch.Tensor) -> Any:
    return tensor.numel(), tensor.device


def _nearness(lost: list[_Candidate], memories: list[_Memory]) -> torch.Tensor:
    """Whether each of `memories` is near each of `lost`, by some numbers: a row for each."""
    numel = lost[0].numel
    count = min(NUMBERS, numel)
    spread = torch.arange(count, device=lost[0].tensor.device) * numel // count
    rows = []
    others_as: dict[Any, torch.Tensor] = {}  # by layout
    for each in lost:
        tensor, reference = each.tensor, each.lost.reference
        at = torch.unravel_index(spread, tensor.shape) if tensor.dim() else (...,)
        should = reference[at].reshape(-1)
        missing = should - tensor[at].reshape(-1).to(torch.float64)
        layout = (tensor.shape, tensor.stride())
        if layout not in others_as:
            values = [memory.laid_out_as(tensor)[at] for memory in memories]
            numbers = [each.reshape(-1).to(torch.float64) for each in values]
            others_as[layout] = torch.stack(numbers)
        others = others_as[layout]
        most = NEAR * missing.norm()
        apart = [(others - each).norm(dim=1) for each in (should, missing, -missing)]
        rows.append(torch.stack(apart).amin(dim=0) <= most)
    return torch.stack(rows)


def _measure(lost: list[_Candidate], near: list[list[_Memory]]) -> None:
    figures: list[torch.Tensor] = []
    for each, memories in zip(lost, near, strict=True):
        reference, tensor = each.lost.reference, each.tensor
        missing = reference - tensor.to(torch.float64)
        figures.append(missing.norm())
        if each.source is not None:
            source = each.source.tensor
            figures.append((source.to(tensor.dtype) == tensor).all())
            figures.append((source == tensor.to(source.dtype)).all())
            figures.append((source.to(torch.float64) - reference).norm())
        for memory in memories:
            other = memory.laid_out_as(tensor).to(torch.float64)
            figures += [(other - apart).norm() for apart in (reference, missing, -missing)]
    if not figures:
        return
    numbers = iter(torch.stack([each.to(torch.float64) for each in figures]).tolist())
    for each, memories in zip(lost, near, strict=True):
        each.missing = next(numbers)
        if each.source is not None:
            each.source.rounds_to_it, each.source.has_its_value = (
                bool(next(numbers)),
                bool(next(numbers)),
            )
            each.source.distance = next(numbers)
        each.near = [(memory.entry, [next(numbers) for _ in range(3)]) for memory in memories]


def _is_copied(lost: _Candidate, references: References) -> bool:
    """It is a copy of a state that holds its value more precisely."""
    source = lost.source
    if source is None or source.entry.new or not references.is_carried(source.entry.alive):
        return False
    if _is_rounded(lost, source) and not _is_set_back(lost, source):
        return True
    return _is_close(source.distance, lost)


def _is_rounded(lost: _Candidate, source: _Source) -> bool:
    """Whether the copy is what is nearest to a wider source: then it has lost nothing, however far
    both are from the reference, as where the gradient was wrong.
    """
    own, wide = lost.tensor.dtype, source.tensor.dtype
    return HALF_ULP.get(wide, 1.0) < HALF_ULP.get(own, 1.0) and source.rounds_to_it


def _is_set_back(lost: _Candidate, source: _Source) -> bool:
    """Whether a state was written after it was copied, and has the rounded value since."""
    node = source.entry.node
    return node is not None and node.number > lost.lost.number and source.has_its_value


def _holds(entry: Entry, lost: _Candidate, distances: list[float]) -> bool:
    from_value, from_missing, from_opposite = distances
    if _is_close(from_value, lost):
        return True  # the whole value, more precisely
    # What was missing is put aside after it got lost; before, it is the change itself.
    if entry.node is None or entry.node.number <= lost.lost.number:
        return False
    return _is_close(from_missing, lost) or _is_close(from_opposite, lost)


def _is_close(distance: float, lost: _Candidate) -> bool:
    return 0 < lost.missing < math.inf and distance < CLOSE * lost.missing


def _memory(entry: Entry) -> Any:
    """The whole memory of an entry as a flat tensor; None once it is gone."""
    storage = torch.UntypedStorage._new_with_weak_ptr(entry.alive.cdata)
    if storage is None or not storage.nbytes():
        return None
    flat = torch.empty(0, dtype=entry.element, device=storage.device)
    count = storage.nbytes() // entry.element.itemsize
    return flat.set_(storage, 0, torch.Size((count,)), (1,))
