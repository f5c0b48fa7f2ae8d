"""Figures of tensors that lie on a device: measured there, many comparisons in one go, and brought
to the host together. Only arrive() waits for the device.

By our kernels a go is a few launches. By torch's operators, where those cannot be used, its tensors
lie behind each other in one flat tensor, so that the operators are the same few however many
comparisons it has: every figure is a sum or a maximum over stretches of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch

from ..base.device_kernels import is_read, launches_on, slots_of
from ..operators.modes import own_work
from .history import is_backed, version_of
from .thresholds import MANY_FLUSHED, MATTERS, MUCH_FLUSHED

MOST_ELEMENTS = 1 << 22  # of a go: its temporaries are about twenty numbers in FP64 for each
MOST_TENSORS = 256
_LARGE = 2.0**500  # squares of larger numbers, and sums of them, leave FP64's range
_FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)
_FLUSHED = slice(16, 19)  # those that count only where much was flushed


def copies(tensors: Sequence[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Of each its own; made by one operator where torch has it."""
    together = getattr(torch, "_foreach_clone", None)
    if together is None or len(tensors) < 2:
        return iter([each.clone() for each in tensors])
    return iter(together(tensors))


@dataclass(slots=True)
class _Pair:
    """A comparison that was not made yet."""

    slot: int
    held: torch.Tensor
    reference: torch.Tensor
    versions: tuple[int, ...]  # of the held memory, by which it is known to be as it was
    restarts: bool  # a reference that is not finite where the held value is becomes what is held
    memory: int  # the held one's

    def intact(self) -> bool:
        return version_of(self.held) in self.versions and is_backed(self.held)


@dataclass(slots=True)
class _Moves:
    """What an operator changed, of which nothing was counted yet: of the tensors in `slots`, which
    lie behind each other.
    """

    slots: list[int]
    numels: list[int]
    held: torch.Tensor
    wanted: torch.Tensor


@dataclass(slots=True)
class _Table:
    """Figures on the device: of each slot a row, as our kernels leave it, or a column, if
    `operators` have made it.
    """

    slots: list[int]
    numels: list[int]
    figures: torch.Tensor  # FP64, or the bits of it
    operators: bool = False


class DeviceFigures:
    """Of one step."""

    def __init__(self) -> None:
        self._pairs: list[_Pair] = []
        self._memories: set[int] = set()  # that the pairs hold
        self._elements = 0
        self._moves: list[_Moves] = []
        self._moved_elements = 0
        self._tables: list[_Table] = []
        self._changes: list[_Table] = []
        self._samples: list[torch.Tensor] = []
        self._sampled: dict[int, list[int]] = {}  # samples that may be written, by memory

    @property
    def waits(self) -> bool:
        return bool(self._pairs or self._tables or self._samples or self._moves or self._changes)

    def compare(
        self,
        slot: int,
        held: torch.Tensor,
        reference: torch.Tensor,
        was_written: bool = False,
        restarts: bool = False,
    ) -> None:
        """The figures of the two go into `slot`. torch counts a write after it was made."""
        version = version_of(held)
        versions = (version, version + 1) if was_written else (version,)
        memory = held.untyped_storage()._cdata
        self._pairs.append(_Pair(slot, held, reference, versions, restarts, memory))
        self._memories.add(memory)
        self._elements += held.numel()
        if self._elements >= MOST_ELEMENTS or len(self._pairs) >= MOST_TENSORS:
            self._launch()

    def change(
        self,
        slots: Sequence[int],
        before: Sequence[torch.Tensor],
        after: Sequence[torch.Tensor],
        was: Sequence[torch.Tensor],
        now: Sequence[torch.Tensor],
    ) -> None:
        """What an operator changed, held and in the reference, goes into `slots` of changes."""
        numels = [each.numel() for each in before]
        with own_work():
            made = _changed_by_kernel(list(zip(before, after, was, now, strict=True)))
        if made is not None:
            self._changes.append(_Table(list(slots), numels, made))
            return
        held, wanted = _moved(before, after), _moved(was, now)
        self._moves.append(_Moves(list(slots), numels, held, wanted))
        self._moved_elements += held.numel()
        if self._moved_elements >= MOST_ELEMENTS:
            self._count_moves()

    def sample(self, values: torch.Tensor, memory: int = 0) -> int:
        """These FP64 values come to the host as they are; their number among such. `memory`: of the
        held values whose reference they are a part of.
        """
        if memory:
            self._sampled.setdefault(memory, []).append(len(self._samples))
        self._samples.append(values)
        return len(self._samples) - 1

    def before_write(self, memories: Iterable[int]) -> None:
        """Memory is about to be written: of what was not looked at yet there are copies from here
        on, which cost less than a go.
        """
        written = set(memories)
        if not self._memories.isdisjoint(written):
            self._copy_pairs([each for each in self._pairs if each.memory in written])
            self._memories -= written
        for at in [at for memory in written for at in self._sampled.pop(memory, ())]:
            self._samples[at] = self._samples[at].clone()

    @staticmethod
    def _copy_pairs(pairs: list[_Pair]) -> None:
        pairs = [each for each in pairs if each.intact()]
        held = copies([each.held for each in pairs])
        references = copies([each.reference for each in pairs])
        for each in pairs:
            each.held, each.reference = next(held), next(references)
            each.versions, each.restarts = (version_of(each.held),), False

    def _launch(self) -> None:
        """Makes the comparisons that were asked for; what was written meanwhile has no figures."""
        pairs = [each for each in self._pairs if each.intact()]
        self._pairs, self._elements = [], 0
        self._memories.clear()
        with own_work():  # also where a hook asks, under the shadow's mode
            self._make(pairs)

    def _make(self, pairs: list[_Pair]) -> None:
        for device in dict.fromkeys(each.held.device for each in pairs):
            here = [each for each in pairs if each.held.device == device]
            for_kernels = [each for each in here if _is_for_kernels(each)]
            figures = _compared_by_kernel(for_kernels)
            if figures is not None:
                self._keep(for_kernels, figures, operators=False)
                here = [each for each in here if not _is_for_kernels(each)]
            if here:
                figures = _figures(
                    [each.held for each in here],
                    [each.reference for each in here],
                    [each.restarts for each in here],
                )
                self._keep(here, figures, operators=True)

    def _keep(self, pairs: list[_Pair], figures: torch.Tensor, operators: bool) -> None:
        slots, numels = [each.slot for each in pairs], [each.held.numel() for each in pairs]
        self._tables.append(_Table(slots, numels, figures, operators))

    def _count_moves(self) -> None:
        moves, self._moves, self._moved_elements = self._moves, [], 0
        for device in dict.fromkeys(each.held.device for each in moves):
            here = [each for each in moves if each.held.device == device]
            slots = [slot for each in here for slot in each.slots]
            numels = [numel for each in here for numel in each.numels]
            held = torch.cat([each.held for each in here])
            wanted = torch.cat([each.wanted for each in here])
            figures = _change_figures(numels, held, wanted)
            self._changes.append(_Table(slots, numels, figures, operators=True))

    def arrive(self) -> Arrived:
        """Waits for the device, once for each that there is. Nothing is left to wait for."""
        self._launch()
        self._count_moves()
        arrived = Arrived()
        tensors = [each.figures for each in (*self._tables, *self._changes)] + self._samples
        on_host = _on_host(tensors)
        for table in self._tables:
            arrived.comparisons.extend(_comparisons(table, next(on_host)))
        for table in self._changes:
            arrived.changes.update(_changes(table, next(on_host)))
        arrived.samples = list(on_host)
        self._tables, self._changes, self._samples = [], [], []
        self._sampled.clear()
        return arrived


class Arrived:
    """What has come to the host."""

    def __init__(self) -> None:
        self.comparisons: list[tuple[int, tuple[float, ...]]] = []  # slot, ReferenceError's fields
        self.changes: dict[int, tuple[float, ...]] = {}  # ChangeError's fields by slot of changes
        self.samples: list[torch.Tensor] = []


def figures_of(held: torch.Tensor, reference: torch.Tensor) -> tuple[float, ...]:
    """The fields of ReferenceError at once; waits for the device."""
    figures = _figures([held], [reference], [False])
    table = _Table([0], [held.numel()], figures, operators=True)
    return _comparisons(table, table.figures.cpu())[0][1]


def change_of(
    before: torch.Tensor, after: torch.Tensor, was: torch.Tensor, now: torch.Tensor
) -> tuple[float, ...]:
    """The fields of ChangeError at once; waits for the device."""
    numels = [before.numel()]
    figures = _change_figures(numels, _moved([before], [after]), _moved([was], [now]))
    return _changes(_Table([0], numels, figures, operators=True), figures.cpu())[0]


def _is_for_kernels(pair: _Pair) -> bool:
    """A reference that is put right has to lie in memory as the kernel writes it."""
    held, reference = pair.held, pair.reference
    if not (is_read(held) and is_read(reference)) or not held.numel():
        return False
    return not pair.restarts or (reference.is_contiguous() and held.is_contiguous())


def _compared_by_kernel(pairs: list[_Pair]) -> torch.Tensor | None:
    """None: the kernels cannot be used."""
    if not pairs:
        return None
    launches = launches_on(pairs[0].held.device)
    if not launches.are_ready():
        return None
    rows = [(each.held, each.reference) for each in pairs]
    words = launches.run("compare", rows, [each.restarts for each in pairs])
    return None if words is None else words.view(torch.float64)


def _changed_by_kernel(rows: list[tuple[torch.Tensor, ...]]) -> torch.Tensor | None:
    """Of held before and after and reference before and after. None: the kernels cannot be used."""
    device = rows[0][0].device
    launches = launches_on(device)
    if not launches.are_ready():
        return None
    if not all(is_read(each) and each.device == device for row in rows for each in row):
        return None
    words = launches.run("change", rows)
    return None if words is None else words.view(torch.float64)


def _on_host(tensors: list[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Copies in the order of `tensors`, made by one copy from each device."""
    copies: dict[int, torch.Tensor] = {}
    for device in dict.fromkeys(each.device for each in tensors):
        here = [at for at, each in enumerate(tensors) if each.device == device]
        flat = torch.cat([tensors[at].reshape(-1) for at in here]).cpu()
        for at, part in zip(here, flat.split([tensors[at].numel() for at in here]), strict=True):
            copies[at] = part.view(tensors[at].shape)
    return iter([copies[at] for at in range(len(tensors))])


def _comparisons(table: _Table, figures: torch.Tensor) -> list[tuple[int, tuple[float, ...]]]:
    """`figures`: those of the table, on the host."""
    if not table.operators:
        rows = slots_of("compare", figures.view(torch.int64))
        return list(zip(table.slots, rows, strict=True))
    found = []
    for slot, numel, row in zip(table.slots, table.numels, figures.t().tolist(), strict=True):
        *counts, fractions, both, error, squared, squared_flushed = row[: _FLUSHED.start - 3]
        extremes, much = row[_FLUSHED.start - 3 : _FLUSHED.start], row[_FLUSHED]
        flushed, nonzero = counts[5], counts[4]
        if flushed <= MANY_FLUSHED * nonzero and squared_flushed <= MUCH_FLUSHED * error:
            much = [0.0, 0.0, 0.0]
        fields = (numel, *map(int, counts), bool(both and not fractions), error, squared)
        found.append((slot, (*fields, squared_flushed, *extremes, *map(int, much))))
    return found


def _changes(table: _Table, figures: torch.Tensor) -> dict[int, tuple[float, ...]]:
    if not table.operators:
        found = slots_of("change", figures.view(torch.int64))
        return dict(zip(table.slots, found, strict=True))
    rows = zip(table.slots, table.numels, figures.t().tolist(), strict=True)
    return {slot: (numel, int(row[0]), int(row[1]), *row[2:]) for slot, numel, row in rows}


class Stretches:
    """Of a flat tensor: one for each of the tensors in it."""

    def __init__(self, numels: Sequence[int], device: torch.device) -> None:
        self._numels = numels
        self._lengths = torch.tensor(numels, device=device)

    def sum(self, values: torch.Tensor) -> torch.Tensor:
        values = values.to(torch.float64)
        return torch.segment_reduce(values, "sum", lengths=self._lengths, unsafe=True, initial=0.0)

    def most(self, values: torch.Tensor) -> torch.Tensor:
        return torch.segment_reduce(values, "max", lengths=self._lengths, unsafe=True, initial=0.0)

    def spread(self, values: torch.Tensor) -> torch.Tensor:
        """For each element the value of its stretch."""
        return torch.repeat_interleave(values, self._lengths, output_size=sum(self._numels))

    def spread_host(self, values: list[float]) -> torch.Tensor:
        if len(set(values)) == 1:
            return self._lengths.new_full((1,), values[0], dtype=torch.float64)
        return self.spread(torch.tensor(values, dtype=torch.float64, device=self._lengths.device))

    def split(self, values: torch.Tensor) -> Sequence[torch.Tensor]:
        parts: Sequence[torch.Tensor] = values.split(list(self._numels))
        return parts

    @property
    def numels(self) -> torch.Tensor:
        return self._lengths.to(torch.float64)


def flat(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """The elements of all tensors in FP64, in their logical order."""
    return torch.cat([_joinable(each).reshape(-1) for each in tensors]).to(torch.float64)


def _joinable(tensor: torch.Tensor) -> torch.Tensor:
    """Of a type that torch.cat() makes wider, never narrower, beside others."""
    if tensor.dtype in _FLOAT8:
        return tensor.to(torch.float32)
    return tensor if tensor.is_floating_point() else tensor.to(torch.float64)


def _largest(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).max if dtype.is_floating_point else math.inf


def _smallest(dtype: torch.dtype) -> float:
    if not dtype.is_floating_point:
        return 1.0
    format_ = torch.finfo(dtype)
    return format_.smallest_normal * format_.eps


def _figures(
    held: Sequence[torch.Tensor], references: Sequence[torch.Tensor], restarts: Sequence[bool]
) -> torch.Tensor:
    """FP64, a column for each pair. Rows: as the fields of ReferenceError after `numel`, but the
    number of finite fractions and of finite elements in the place of `integers`, and what counts of
    the flushed elements always. References that have to (`restarts`) become what is held.
    """
    stretches = Stretches([each.numel() for each in held], held[0].device)
    h, r = flat(held), flat(references)
    held_finite, finite = h.isfinite(), r.isfinite()
    bad = ~held_finite
    both = held_finite & finite
    sums = [
        stretches.sum(each)
        for each in (finite & bad, r.isnan() & bad, r.isinf() & bad, held_finite & ~finite)
    ]
    if any(restarts):
        may = torch.tensor(restarts, device=h.device)
        anew = may & (sums[3] > 0) & (sums[0] + sums[1] + sums[2] == 0)
        _restart(references, restarts, stretches, torch.where(stretches.spread(anew), h, r))
    h, r = torch.where(both, h, 0.0), torch.where(finite, r, 0.0)
    size = r.abs()
    flushed = both & (r != 0) & (h == 0)
    most_held, most_reference = stretches.most(h.abs()), stretches.most(size)
    largest = stretches.spread_host([_largest(each.dtype) for each in held])
    whole = r == r.round()
    sums += [
        stretches.sum(r != 0),
        stretches.sum(flushed),
        stretches.sum(both & whole & (h != r)),
        stretches.sum(both & (h.abs() == largest) & (size > largest)),
        stretches.sum(both & ~whole),
        stretches.sum(both),
    ]
    r = torch.where(both, r, 0.0)
    error = (h - r).abs()
    most_error = stretches.most(error)
    # Where squares would leave the range of FP64 all are scaled down by one power of two.
    most = torch.maximum(most_held, most_reference)
    exponent = 481 - torch.frexp(most)[1]
    scale = torch.where(most > _LARGE, torch.ldexp(torch.ones_like(most), exponent), 1.0)
    scaled = stretches.spread(scale)
    error, size = error * scaled, r.abs() * scaled
    squared = size.square()
    squares = [stretches.sum(each) for each in (error.square(), squared, squared * flushed)]
    least = stretches.spread(MATTERS * torch.sqrt(squares[1] / stretches.numels))
    smallest = stretches.spread_host([_smallest(each.dtype) for each in held])
    matters, in_range = flushed & (size >= least), flushed & (size >= smallest)
    much = [stretches.sum(each) for each in (matters, in_range, matters & in_range)]
    return torch.stack([*sums, *squares, most_error, most_reference, most_held, *much])


def _restart(
    references: Sequence[torch.Tensor],
    restarts: Sequence[bool],
    stretches: Stretches,
    values: torch.Tensor,
) -> None:
    pairs = zip(references, restarts, stretches.split(values), strict=True)
    chosen = [(each, part.view(each.shape)) for each, may, part in pairs if may]
    torch._foreach_copy_([each for each, _ in chosen], [part for _, part in chosen])


def _moved(before: Sequence[torch.Tensor], after: Sequence[torch.Tensor]) -> torch.Tensor:
    return flat(after) - flat(before)


def _change_figures(
    numels: Sequence[int], held: torch.Tensor, wanted: torch.Tensor
) -> torch.Tensor:
    """FP64, a column for each tensor. Rows: the fields of ChangeError after `numel`. `held`,
    `wanted`: the changes of all tensors.
    """
    stretches = Stretches(numels, held.device)
    moved = held.isfinite() & wanted.isfinite() & (wanted != 0)
    held, wanted = torch.where(moved, held, 0.0), torch.where(moved, wanted, 0.0)
    lost = moved & (held == 0)
    size = wanted.abs()
    rows = (
        moved,
        lost,
        size,
        size * lost,
        held * wanted.sign(),
        wanted.square(),
        (held - wanted).square(),
    )
    return torch.stack([stretches.sum(each) for each in rows])
