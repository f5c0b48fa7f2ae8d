"""References that outlive their step, by memory and version: of tables, schedules, data and
constants that were computed before a training step and are used in many.

Such a memory is taken up again when an operator of a later shadow step first reads it. It then
stands on that step's tape as the result of the operator in which its error came in, so that what
is found further on leads back to that line.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .call import Call
from .comparison import Comparison, compare, on_host
from .findings import Cure
from .history import LASTING, Held, is_backed, version_of
from .operators import Operator
from .places import Site
from .references import Entry

MOST_BYTES = 64 << 20  # of references

# By their words on the tape, the narrowest first.
NARROW = {
    "float8_e4m3fn": torch.float8_e4m3fn,
    "float8_e5m2": torch.float8_e5m2,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the error of what lies in memory came in."""

    site: Site
    dtype: str  # as CameIn.dtype
    cure: Cure | None
    is_finding: bool  # there was so much that it was one

    @property
    def narrow(self) -> torch.dtype | None:
        """What is narrower than FP32 there."""
        return next((each for name, each in NARROW.items() if name in self.dtype), None)


@dataclass(slots=True)
class Lasting:
    """What is known of one storage."""

    alive: StorageWeakRef
    element: torch.dtype  # as Entry.element
    versions: tuple[int, ...]  # of its tensors, since nothing was written
    base: torch.Tensor  # as Entry.base, in one dimension
    figures: Comparison  # of all of it with `base`
    origin: Origin
    rounding: float  # as Call.rounding

    @classmethod
    def made(cls, tensor: torch.Tensor, value: torch.Tensor, origin: Origin) -> Lasting:
        """`tensor`, all of a new memory, should be `value`."""
        storage, base = tensor.untyped_storage(), flat(value)
        figures = compare(tensor.detach().flatten(), base)
        assert figures is not None
        versions = (version_of(tensor),)
        return cls(StorageWeakRef(storage), tensor.dtype, versions, base, figures, origin, 0.0)

    def call(self, tensor: torch.Tensor, number: int) -> tuple[Call, torch.Tensor]:
        """The operator in which its error came in, as call `number` of the step under way, which
        makes all of the memory of `tensor`; and that memory.
        """
        held = _whole(tensor, self.element)
        operator = Operator(None)
        operator.name = self.origin.site.operator
        call = Call(operator, self._again, self.origin.site, number)
        call.node.args = tuple(
            Held(each, version_of(each), None, LASTING) for each in (held, self.base)
        )
        call.node.kwargs = {}
        call.rounding = self.rounding
        call.cured = self._cured
        return call, held

    def _again(self, held: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
        """What the operator would have made in the type of the arguments."""
        is_wider = self.origin.narrow is not None or reference.dtype is torch.float64
        return reference if is_wider else held

    def _cured(self, before: float) -> Cure | str:
        """As find_cure(), of this operator itself."""
        site, cure = self.origin.site, self.origin.cure
        if cure is None and self.origin.is_finding:
            return "not found"
        if cure is not None:
            return cure
        wider = torch.float64 if self.origin.narrow is None else torch.float32
        after = compare(self.base.to(wider), self.base)
        lines = [site.source] if site.source else []
        what = str(wider).removeprefix("torch.")
        return Cure(lines, [site.operator], what, before, None if after is None else after.error)


class LastingReferences:
    """Of one run."""

    def __init__(self) -> None:
        self._known: dict[int, Lasting] = {}  # by storage

    def __bool__(self) -> bool:
        return bool(self._known)

    def of(self, tensor: torch.Tensor) -> Lasting | None:
        """What is known of the memory of `tensor`, if it still holds what it held then."""
        key = tensor.untyped_storage()._cdata
        found = self._known.get(key)
        if found is None:
            return None
        if found.element is tensor.dtype and is_backed(tensor):
            same = version_of(tensor) in found.versions
            # Writing through `.data` or NumPy counts no version, an inference tensor has none.
            if not on_host(tensor):
                same = same and not tensor.is_inference()
            elif same:
                same = compare(_whole(tensor, found.element), found.base) == found.figures
            if same:
                return found
        del self._known[key]
        return None

    def keep(self, found: Iterable[tuple[Entry, torch.Tensor, Comparison, Origin, float]]) -> None:
        """A step is over. Of memory that goes on: its entry, what it holds as a whole (`whole_of`),
        the two compared, where the error came in and the rounding of its reference.
        """
        for entry, held, figures, origin, rounding in found:
            self._known[held.untyped_storage()._cdata] = Lasting(
                entry.alive,
                entry.element,
                entry.compared[0],
                flat(entry.base),
                figures,
                origin,
                rounding,
            )
        alive = [item for item in self._known.items() if not item[1].alive.expired()]
        alive.sort(key=lambda item: (not item[1].figures.integers, item[1].base.numel()))
        self._known.clear()
        room = MOST_BYTES
        for key, each in alive:
            size = each.base.numel() * each.base.element_size()
            if size <= room:
                self._known[key] = each
                room -= size

    def knows(self, entry: Entry) -> bool:
        """Whether `entry` is one that was taken up again, and not written since."""
        known = self._known.get(entry.alive.cdata)
        return known is not None and known.base is entry.base and _meet(known, entry)


def _meet(known: Lasting, entry: Entry) -> bool:
    return not entry.compared or bool(set(known.versions) & set(entry.compared[0]))


def whole_of(entry: Entry) -> torch.Tensor | None:
    """All that the memory of `entry` holds; None where it is gone."""
    storage: Any = torch.UntypedStorage._new_with_weak_ptr(entry.alive.cdata)
    size = entry.element.itemsize
    if storage is None or storage.nbytes() < entry.base.numel() * size:
        return None
    empty = torch.empty(0, dtype=entry.element, device=storage.device)
    return empty.set_(storage, 0, (entry.base.numel(),), (1,))


def flat(base: torch.Tensor) -> torch.Tensor:
    return base.as_strided((base.numel(),), (1,), 0)


def _whole(tensor: torch.Tensor, element: torch.dtype) -> torch.Tensor:
    """All of the memory of `tensor`."""
    count = tensor.untyped_storage().nbytes() // element.itemsize
    return tensor.detach().as_strided((count,), (1,), 0)
