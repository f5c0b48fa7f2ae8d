"""The reference values of a shadow step: for each memory that holds floating-point numbers, the
same numbers in FP64.

A reference belongs to a storage and not to a tensor, so that views need nothing of their own: the
reference of a view is the same view of the storage's reference. Entries of storages that are gone
are dropped by sweep(). Used by the thread that runs the operator.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .history import version_of
from .operators import COMPLEX

if TYPE_CHECKING:
    from .history import Node
    from .uncertainty import Uncertainty

# The type of the elements of a complex one.
REAL = {
    torch.complex32: torch.float16,
    torch.complex64: torch.float32,
    torch.complex128: torch.float64,
}
SWEEP_EVERY = 96  # new entries
NONE = -1  # on the tape: what is not there


def wide(dtype: torch.dtype) -> torch.dtype:
    """The reference's type of a floating-point type."""
    return torch.complex128 if dtype in COMPLEX else torch.float64


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """The held values in FP64, in memory of their own."""
    return tensor.detach().to(wide(tensor.dtype), copy=True)


def is_whole(tensor: torch.Tensor) -> bool:
    """Whether it is all of its memory."""
    held = tensor.numel() * tensor.element_size()
    return bool(tensor.untyped_storage().nbytes() == held)


@dataclass(slots=True)
class Entry:
    """What is known of one storage."""

    alive: StorageWeakRef
    element: torch.dtype  # of the held elements; of complex ones the real type
    base: torch.Tensor  # FP64 with the storage's layout
    new: bool  # made in this step; else it was there before
    kept: bool = False  # (some of) what it held when the step began is still there
    memory: int = 0  # its number on the tape
    node: Node | None = None  # the operator that wrote it last
    ulp: float = 0.0  # of what came in with the step: part of the values by which they may be off
    doubt: bool = False  # something that led to it was computed before the step
    slot: int = NONE  # of the newest comparison
    compared: tuple[Any, ...] = ()  # which view of the memory, and which versions of it

    def keep(self, tensor: torch.Tensor, slot: int, was_written: bool) -> None:
        """Comparing `tensor` has given the figures in `slot`. torch counts a write after it was
        made.
        """
        version = version_of(tensor)
        self.slot = slot
        self.compared = (
            (version, version + was_written),
            tensor.storage_offset(),
            tensor.shape,
            tensor.stride(),
        )

    def slot_of(self, tensor: torch.Tensor) -> int:
        """Where the figures are that comparing `tensor` has given, if nothing was written since."""
        if self.slot == NONE:
            return NONE
        versions, offset, shape, stride = self.compared
        same = (
            version_of(tensor) in versions
            and tensor.storage_offset() == offset
            and tensor.shape == shape
            and tensor.stride() == stride
        )
        return self.slot if same else NONE


class References:
    def __init__(self, uncertainty: Uncertainty | None = None) -> None:
        self.uncertainty = uncertainty
        self._entries: dict[int, Entry] = {}
        self._fresh = 0
        self._numbers = itertools.count()
        self.bytes = 0
        self.most_bytes = 0
        self.made_bytes = 0  # of all references so far
        self._carried: set[int] = set()  # memory, which may be gone

    def entry(self, tensor: torch.Tensor) -> Entry | None:
        """The entry of the tensor's memory; None where it has none, or of elements of another
        type.
        """
        storage = tensor.untyped_storage()
        found = self._entries.get(storage._cdata)
        if found is None or found.element != REAL.get(tensor.dtype, tensor.dtype):
            return None
        return found

    def reads(self, entry: Entry) -> None:
        """An operator reads what is held there."""
        if entry.kept:
            self._carried.add(entry.alive.cdata)

    def is_carried(self, memory: StorageWeakRef) -> bool:
        """Whether what it held when the step began was read in it, as is so of a state."""
        return memory.cdata in self._carried

    def of(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The tensor's reference, which shares its memory with those of other views."""
        found = self.entry(tensor)
        return None if found is None else self._view(found, tensor)

    def _view(self, entry: Entry, tensor: torch.Tensor) -> torch.Tensor:
        base = entry.base
        if tensor.dtype in COMPLEX:
            base = base.view(torch.complex128)
            value = base.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
            return value.conj() if tensor.is_conj() else value
        value = base.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
        return value._neg_view() if tensor.is_neg() else value

    def set(self, tensor: torch.Tensor, value: torch.Tensor) -> Entry:
        """`value` is the reference of `tensor`, the new result of an operator."""
        storage = tensor.untyped_storage()
        whole = (
            value.dtype is torch.float64
            and not tensor.storage_offset()
            and not value.storage_offset()
            and tensor.stride() == value.stride()
            and storage.nbytes() == tensor.numel() * tensor.element_size()
            and value.untyped_storage().nbytes() >= tensor.numel() * 8
        )
        entry = self._add(tensor, storage, value if whole else None, new=True)
        if self.uncertainty is not None:
            self.uncertainty.lost.discard(storage._cdata)
        if not whole:
            self._view(entry, tensor).copy_(value)
        return entry

    def writable(self, tensor: torch.Tensor, overwritten: bool) -> torch.Tensor:
        """The reference of memory that an operator is about to write, starting with the values that
        are held where it has none yet. `overwritten`: the operator reads none of them, neither
        through `tensor` nor through another argument that shares its memory.
        """
        entry = self.entry(tensor)
        if entry is None:
            storage = tensor.untyped_storage()
            known = storage._cdata in self._entries  # of elements of another type
            base = None
            if not (overwritten and is_whole(tensor)):
                count = storage.nbytes() // tensor.element_size()
                held = widened(tensor.detach().as_strided((count,), (1,), 0))
                base = held.view(torch.float64) if tensor.dtype in COMPLEX else held
            entry = self._add(tensor, storage, base, new=known)
            if base is not None and self.uncertainty is not None:
                entry.ulp, entry.doubt = self.uncertainty.of(tensor)
        return self._view(entry, tensor)

    def start(self, tensor: torch.Tensor) -> Entry:
        """The reference of memory that is met for the first time: what is held."""
        found = self.entry(tensor)
        if found is None:
            self.writable(tensor, overwritten=False)
            found = self.entry(tensor)
            assert found is not None
            found.new, found.kept = False, True
        return found

    def take_up(self, tensor: torch.Tensor, base: torch.Tensor) -> Entry:
        """`base` is the reference of all of the memory of `tensor`, since an earlier step."""
        entry = self._add(tensor, tensor.untyped_storage(), base, new=False)
        entry.kept = True
        return entry

    def number(self) -> int:
        """For memory that only the tape knows."""
        return next(self._numbers)

    def restart(self, tensor: torch.Tensor) -> None:
        """What is held is the reference from here on."""
        entry = self.entry(tensor)
        if self.uncertainty is not None:
            self.uncertainty.loses([tensor])
        if entry is None:
            return
        entry.doubt = True
        if is_whole(tensor):
            self.forget(tensor)
        else:
            self._view(entry, tensor).copy_(tensor.detach())
            entry.slot = NONE

    def forget(self, tensor: torch.Tensor) -> None:
        entry = self._entries.pop(tensor.untyped_storage()._cdata, None)
        if entry is not None:
            self.bytes -= entry.base.numel() * 8

    def forget_sent(self, tensor: torch.Tensor) -> None:
        """`tensor` gets values from other processes, in a narrower type than what it was made of:
        a communication hook writes them back there, in a thread where no operator is heard.
        """
        size, bytes_each = tensor.untyped_storage().nbytes(), tensor.element_size()
        for key, entry in list(self._entries.items()):
            wider = entry.element.itemsize > bytes_each
            if wider and entry.base.numel() == size // bytes_each:
                self.bytes -= self._entries.pop(key).base.numel() * 8

    def _add(
        self, tensor: torch.Tensor, storage: Any, base: torch.Tensor | None, new: bool
    ) -> Entry:
        key = storage._cdata
        if self.uncertainty is not None and tensor.element_size() < 4:
            self.uncertainty.kept.narrow = True
        old = self._entries.get(key)
        if old is not None:
            self.bytes -= old.base.numel() * 8
        if base is None:
            count = storage.nbytes() // tensor.element_size()
            count *= 2 if tensor.dtype in COMPLEX else 1
            base = torch.empty(count, dtype=torch.float64, device=tensor.device)
        entry = Entry(
            StorageWeakRef(storage),
            REAL.get(tensor.dtype, tensor.dtype),
            base,
            new and (old is None or old.new),
            memory=next(self._numbers),
        )
        self._entries[key] = entry
        self.bytes += base.numel() * 8
        self.made_bytes += base.numel() * 8
        self.most_bytes = max(self.most_bytes, self.bytes)
        self._fresh += 1
        if self._fresh >= SWEEP_EVERY:
            self.sweep()
        return entry

    def sweep(self) -> None:
        """Drops what belongs to memory that is gone."""
        self._fresh = 0
        gone = [key for key, entry in self._entries.items() if entry.alive.expired()]
        for key in gone:
            self.bytes -= self._entries.pop(key).base.numel() * 8

    def stay_below(self, most_bytes: int) -> bool:
        """Drops all where they take more; what is met then starts from what is held. Whether there
        was room.
        """
        if self.bytes > most_bytes:
            self.sweep()
        if self.bytes <= most_bytes:
            return True
        self.clear()
        if self.uncertainty is not None:
            self.uncertainty.all_lost = True
        return False

    def clear(self) -> None:
        self._entries.clear()
        self._carried.clear()
        self.bytes = self._fresh = 0

    def living(self) -> list[Entry]:
        self.sweep()
        return list(self._entries.values())
