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

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch

from .. import _core
from ..fp64.births import NARROW, Births
from ..fp64.call import Call, Written
from ..fp64.comparison import Change
from ..fp64.elsewhere import Elsewhere
from ..fp64.findings import CameIn
from ..fp64.history import is_backed
from ..fp64.lasting import LastingReferences
from ..fp64.places import Site
from ..fp64.references import Entry
from ..fp64.uncertainty import Kept
from ..fp64.unwritten import Unwritten
from ..model.shards import local_part
from ..relations.plateaus import Plateaus
from .random_rounding import RandomRounding, share_same
from .tape import Tape, element

SAMPLE = 1 << 14  # numbers of a weight, by which the lines of a step are looked at together


@dataclass(slots=True)
class _Seen:
    """One tensor that one line changes, in one step."""

    site: Site
    tensor: Callable[[], torch.Tensor | None]
    reference: torch.Tensor
    entry: Entry
    number: int  # of the operator
    source: tuple[torch.Tensor, Entry] | None  # what it was copied from, where it was


@dataclass(slots=True)
class _Weight:
    """A weight in one step, from before the first line that changes it."""

    before: torch.Tensor  # some of its numbers
    was: torch.Tensor  # of its reference
    layout: tuple[Any, ...]  # of the tensor that the first line changes
    newest: _Seen
    in_parts: bool = False  # other lines change other parts of its memory


class Changes:
    """Of one run. `names`: of parameters and buffers by their memory."""

    def __init__(self, names: Callable[[int], str | None]) -> None:
        self._names = names
        self.run = _core.LostChanges()  # what the judge remembers of its steps
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._seen: list[_Seen] = []  # by number
        self._weights: dict[str, _Weight] = {}
        self._followed: set[str] = set()
        # Places whose next result is judged at once, by Site.key: what could be asked about them
        # was gone in an earlier step. False: it was.
        self.suspects: dict[Any, bool] = {}
        self._elsewhere = Elsewhere()
        self._rounding = RandomRounding()
        self.unwritten = Unwritten()
        self.births = Births()
        # Where what is read or changed in the step under way got its format, by Site.key.
        self.homes: dict[Any, Site] = {}
        self.kept = Kept()
        self.lasting = LastingReferences()
        self.plateaus = Plateaus()
        self._step = 0  # that is under way

    def name(self, tensor: torch.Tensor) -> str:
        """Of a parameter or buffer, "" of anything else."""
        return self._names(tensor.untyped_storage()._cdata) or ""

    def is_leaf(self, memory: int) -> bool:
        """Whether a parameter or a buffer lies there."""
        return self._names(memory) is not None

    def is_kept(self, tensor: torch.Tensor) -> bool:
        """Whether a weight that stays where it is loses nothing by that, as the newest shadow step
        has measured: another state holds what is missing, or rounding goes up and down at random.
        """
        return self.run.is_kept(self.name(local_part(tensor)))

    @property
    def followed(self) -> set[str]:
        """The weights whose changes in this step were compared."""
        return self._followed

    @property
    def rounds_weights(self) -> CameIn | None:
        """What weights are rounded by between the optimizer's steps."""
        found = self.run.rounds_weights()
        return None if found is None else CameIn(Site(*found[:6]), *found[6:])

    def begin(self, step: int) -> None:
        self._step = step
        self._forget()

    def _forget(self) -> None:
        self._numbers.clear()
        self._seen.clear()
        self._weights.clear()
        self._followed = set()

    def see(
        self,
        tape: Tape,
        call: Call,
        index: int,
        written: Written,
        change: Callable[[], Change | None],
        source: tuple[torch.Tensor, Entry] | None,
    ) -> None:
        """`call` has made a `change`, which is to be asked in a row. `index`: among what it writes;
        `source`: it was copied from there.
        """
        if not tape.waits and not _has_moved(change()):
            return
        tensor, entry, name = written.tensor, written.entry, self.name(written.tensor)
        made = call.node.number
        if call.operator.schema_name == "aten::copy_":  # what it copies was rounded before
            made = max((each.node.number for each in call.inputs if each.node), default=made)
        key = (call.site.key, name or index)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._seen)
            alias, reference = tensor.detach(), written.reference
            self._seen.append(_Seen(call.site, lambda: alias, reference, entry, made, source))
        in_parts = False
        if name:
            weight = self._weights.get(name)
            if weight is None:
                assert written.before is not None and written.was is not None
                weight = self._weights[name] = _Weight(
                    _own_sample(written.before),
                    _own_sample(written.was),
                    _layout(tensor),
                    self._seen[number],
                )
            weight.in_parts = weight.in_parts or weight.layout != _layout(tensor)
            weight.newest = self._seen[number]
            in_parts = weight.in_parts
        row = (
            call.node.number,
            made,
            index,
            entry.memory,
            element(tensor.dtype),
            tensor.shape,
            name,
            entry.slot,
            number,
            in_parts,
        )
        tape.write(self._judge, tape, entry, name, row, change)

    def _judge(
        self,
        tape: Tape,
        entry: Entry,
        name: str,
        row: tuple[Any, ...],
        change: Callable[[], Change | None],
    ) -> None:
        found = change()
        if found is not None and found.moved and not tape.is_noise(entry):
            self._followed.add(name)
            tape.judge.change(*row, *found)

    def finish(self, tape: Tape) -> None:
        """The step is over: what the lines of a weight come to together, and what of that which was
        lost is held by another state.
        """
        if not tape.judge.is_small_loss:
            together = self._together(tape, tape.judge.several_lines())
            moved = list(self._moved())
            same = [share_same(before, after) for _, _, before, after in moved]
            stays = tape.numbers(torch.stack(same)) if same else list
            tape.settle()
            for name, change in together:
                found = change()
                if found is not None:
                    tape.judge.together(name, *found)
            lost = [(number, name, self._line(number, name)) for number, name in tape.judge.lost()]
            held = self._elsewhere.held(self._step, [seen for _, _, seen in lost], tape.references)
            shares = zip(moved, stays(), strict=True)
            weights = [(name, line, before, share) for (name, line, before, _), share in shares]
            for name in self._rounding.look(self._step, weights):
                tape.judge.kept_at_random(name)
            sizes = _sizes([seen for _, _, seen in lost if id(seen) not in held])
            for number, name, seen in lost:
                self._tell_home(seen)
                own = sizes.get(id(seen), (0.0, 0.0, 0.0))
                tape.judge.lost_line(number, name, id(seen) in held, *own)
        self._forget()

    def reads(self, site: Site, operands: Iterable[torch.Tensor]) -> None:
        """An operator at `site` is about to read `operands`: what goes wrong there may do so
        because of a format that something has had since before.
        """
        for each in operands:
            home = self.births.of(each) if each.dtype in NARROW else None
            if home is not None and home.phase == "data" and home.source != site.source:
                self.homes.setdefault(site.key, home)

    def _tell_home(self, seen: _Seen) -> None:
        tensor = seen.tensor()
        home = None if tensor is None else self.births.of(tensor)
        if home is not None and home.source != seen.site.source:
            self.homes[seen.site.key] = home

    def _together(
        self, tape: Tape, names: list[str]
    ) -> list[tuple[str, Callable[[], Change | None]]]:
        """What the lines of each of these weights come to together, at the last one of them."""
        ends = []
        for name in names:
            weight, newest = self._weights[name], self._weights[name].newest
            tensor = newest.tensor()
            if tensor is not None and is_backed(tensor):
                reference = _sample(newest.reference)
                ends.append((name, (weight.before, _sample(tensor), weight.was, reference)))
        changes = tape.compare_changes([tensors for _, tensors in ends])
        return [(name, change) for (name, _), change in zip(ends, changes, strict=True)]

    def _line(self, number: int, name: str) -> _Seen:
        """The line and tensor of this number, or the last line of a weight that several change."""
        return self._seen[number] if number >= 0 else replace(self._weights[name].newest)

    def _moved(self) -> Iterable[tuple[str, Any, torch.Tensor, torch.Tensor]]:
        for name, weight in self._weights.items():
            tensor, site = weight.newest.tensor(), weight.newest.site
            is_seen = name in self._followed and not weight.in_parts
            if is_seen and tensor is not None and is_backed(tensor):
                yield name, (site.file, site.line), weight.before, _sample(tensor)


def _has_moved(change: Change | None) -> bool:
    return change is not None and bool(change.moved)


def _sizes(lost: list[_Seen]) -> dict[int, tuple[float, float, float]]:
    """By id: the largest magnitude of the reference, the mean one, and the sum of the held ones;
    waits for a device once.
    """
    rows = []
    for seen in lost:
        tensor, reference = seen.tensor(), seen.reference.abs()
        assert tensor is not None
        held = tensor.detach().abs().sum(dtype=torch.float64)
        rows.append(torch.stack([reference.max(), reference.mean(), held]))
    figures = torch.stack(rows).tolist() if rows else []
    return {id(seen): tuple(row) for seen, row in zip(lost, figures, strict=True)}


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.stride(), tensor.storage_offset()


def _sample(tensor: torch.Tensor) -> torch.Tensor:
    """Some of its numbers, the same ones each time."""
    flat = tensor.detach()
    if flat.is_complex():
        flat = torch.view_as_real(flat.resolve_conj())
    if flat.numel() > SAMPLE:
        flat = flat.flatten()[:: flat.numel() // SAMPLE][:SAMPLE]
    return flat


def _own_sample(copy: torch.Tensor) -> torch.Tensor:
    """As _sample(), of a copy that nobody else writes and that is not kept for it."""
    return _sample(copy) if copy.numel() <= SAMPLE else _sample(copy).clone()
