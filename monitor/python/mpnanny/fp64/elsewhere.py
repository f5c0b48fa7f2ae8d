"""Whether what a weight has lost is held by another state of the training: a wider copy (master
weights), or the missing part itself (Kahan's compensation). Looked for among values, not by names.

A state is memory that was there before the step and was read in it, or memory of this step that
outlives it and is read in the next one, as where a program makes a new tensor each time. A
temporary holds the exact value for a moment, too, and is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .comparison import HALF_ULP
from .history import is_backed
from .places import Site
from .references import Entry, References

CLOSE = 0.5  # of what is missing: the largest distance of what holds it
MOST = 0.5  # of what a line has lost: what has to be held for it to be no loss


class Lost(Protocol):
    """A tensor that a line has left as it was."""

    site: Site
    tensor: Callable[[], torch.Tensor | None]
    reference: torch.Tensor
    entry: Entry
    number: int
    source: tuple[torch.Tensor, Entry] | None  # what it was copied from


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
        sizes: dict[_Line, list[int]] = {}  # elements that were lost, and those that are held
        lines: list[tuple[_Line, Lost]] = []
        for each in lost:
            line = (each.site.file, each.site.line)
            lines.append((line, each))
            size = sizes.setdefault(line, [0, 0])
            copied = _is_copied(each, references)
            if each.reference.numel() == 1 and not copied:
                continue
            size[0] += each.reference.numel()
            if copied or self._is_held(line, each, references):
                size[1] += each.reference.numel()
        return {
            id(each)
            for line, each in lines
            if sizes[line][1] and sizes[line][1] >= MOST * sizes[line][0]
        }

    def _settle(self, step: int, references: References) -> None:
        """What became of the new states of the step before."""
        pending, self._pending = self._pending, {}
        if step == self._step + 1:
            for line, memories in pending.items():
                self._is_read[line] = any(map(references.is_carried, memories))
        self._step = step

    def _is_held(self, line: _Line, lost: Lost, references: References) -> bool:
        missing = _missing(lost)
        tensor = lost.tensor()
        if missing is None or tensor is None:
            return False
        temporary = self._is_read.get(line) is False
        own = tensor.untyped_storage()._cdata
        for entry in references.living():
            if entry is lost.entry or entry.base.numel() != tensor.numel():
                continue
            if temporary if entry.new else not references.is_carried(entry.alive):
                continue
            if not _holds(entry, lost, missing, tensor, own):
                continue
            if entry.new:
                if entry.alive.expired():
                    continue  # it was gone with the step
                self._pending.setdefault(line, []).append(entry.alive)
            return True
        return False


def _is_copied(lost: Lost, references: References) -> bool:
    """It is a copy of a state that holds its value more precisely."""
    if lost.source is None:
        return False
    source, entry = lost.source
    tensor = lost.tensor()
    if entry.new or not references.is_carried(entry.alive):
        return False
    if tensor is None or source.shape != tensor.shape:
        return False
    if not is_backed(source) or not is_backed(tensor):
        return False
    if _is_rounded(tensor, source) and not _is_set_back(source, tensor, lost):
        return True
    missing = _missing(lost)
    return missing is not None and _is_close(source.to(torch.float64) - lost.reference, missing)


def _is_rounded(tensor: torch.Tensor, source: torch.Tensor) -> bool:
    """Whether `tensor` is what is nearest to a wider `source`: then the copy has lost nothing,
    however far both are from the reference, as where the gradient was wrong.
    """
    wider = HALF_ULP.get(source.dtype, 1.0) < HALF_ULP.get(tensor.dtype, 1.0)
    return wider and torch.equal(source.to(tensor.dtype), tensor)


def _is_set_back(source: torch.Tensor, tensor: torch.Tensor, lost: Lost) -> bool:
    """Whether a state was written after it was copied, and has the rounded value since."""
    node = None if lost.source is None else lost.source[1].node
    was_written = node is not None and node.number > lost.number
    return was_written and torch.equal(source, tensor.to(source.dtype))


def _holds(entry: Entry, lost: Lost, missing: torch.Tensor, tensor: torch.Tensor, own: int) -> bool:
    other = _memory(entry)
    if other is None or other.untyped_storage()._cdata == own:
        return False
    other = other.to(torch.float64).as_strided(tensor.shape, tensor.stride(), 0)
    if _is_close(other - lost.reference, missing):
        return True  # the whole value, more precisely
    # What was missing is put aside after it got lost; before, it is the change itself.
    if entry.node is None or entry.node.number <= lost.number:
        return False
    return _is_close(other - missing, missing) or _is_close(other + missing, missing)


def _missing(lost: Lost) -> torch.Tensor | None:
    tensor = lost.tensor()
    if tensor is None or not is_backed(tensor):
        return None
    missing: torch.Tensor = lost.reference - tensor.to(torch.float64)
    size = float(missing.norm())
    return missing if 0 < size < float("inf") else None


def _is_close(distance: torch.Tensor, missing: torch.Tensor) -> bool:
    return bool(distance.norm() < CLOSE * missing.norm())


def _memory(entry: Entry) -> Any:
    """The whole memory of an entry as a flat tensor; None once it is gone."""
    storage = torch.UntypedStorage._new_with_weak_ptr(entry.alive.cdata)
    if storage is None or not storage.nbytes():
        return None
    flat = torch.empty(0, dtype=entry.element, device=storage.device)
    count = storage.nbytes() // entry.element.itemsize
    return flat.set_(storage, 0, torch.Size((count,)), (1,))
