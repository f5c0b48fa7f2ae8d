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
from ..fp64.call import Call
from ..fp64.comparison import Change, compare_change
from ..fp64.elsewhere import Elsewhere
from ..fp64.findings import CameIn
from ..fp64.history import is_backed
from ..fp64.places import Site
from ..fp64.references import Entry
from ..fp64.unwritten import Unwritten
from ..model.shards import local_part
from .random_rounding import RandomRounding
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
        self._elsewhere = Elsewhere()
        self._rounding = RandomRounding()
        self.unwritten = Unwritten()
        self._step = 0  # that is under way

    def name(self, tensor: torch.Tensor) -> str:
        """Of a parameter or buffer, "" of anything else."""
        return self._names(tensor.untyped_storage()._cdata) or ""

    def is_kept(self, tensor: torch.Tensor) -> bool:
        """Whether a weight that stays where it is loses nothing by that, as the newest shadow step
        has measured: another state holds what is missing, or rounding goes up and down at random.
        """
        return self.run.is_kept(self.name(local_part(tensor)))

    @property
    def followed(self) -> set[str]:
        """The weights whose changes in this step were compared."""
        return set(self._weights)

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

    def see(
        self,
        tape: Tape,
        call: Call,
        made: int,
        index: int,
        tensor: torch.Tensor,
        reference: torch.Tensor,
        entry: Entry,
        change: Change,
        before: torch.Tensor,
        was: torch.Tensor,
        source: tuple[torch.Tensor, Entry] | None,
    ) -> None:
        """`call` has changed `tensor`, which was `before`, and its `reference`, which `was`.
        `made`: the operator whose values these are; `source`: it was copied from there.
        """
        name = self.name(tensor)
        key = (call.site.key, name or index)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._seen)
            alias = tensor.detach()
            self._seen.append(_Seen(call.site, lambda: alias, reference, entry, made, source))
        in_parts = False
        if name:
            weight = self._weights.get(name)
            if weight is None:
                weight = self._weights[name] = _Weight(
                    _sample(before), _sample(was), _layout(tensor), self._seen[number]
                )
            weight.in_parts = weight.in_parts or weight.layout != _layout(tensor)
            weight.newest = self._seen[number]
            in_parts = weight.in_parts
        tape.judge.change(
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
            *change,
        )

    def finish(self, tape: Tape) -> None:
        """The step is over: what the lines of a weight come to together, and what of that which was
        lost is held by another state.
        """
        if not tape.judge.is_small_loss:
            for name in tape.judge.several_lines():
                change = self._together(name)
                if change is not None:
                    tape.judge.together(name, *change)
            lost = [(number, name, self._line(number, name)) for number, name in tape.judge.lost()]
            held = self._elsewhere.held(self._step, [seen for _, _, seen in lost], tape.references)
            for name in self._rounding.look(self._step, self._moved()):
                tape.judge.kept_at_random(name)
            for number, name, seen in lost:
                sizes = (0.0, 0.0, 0.0) if id(seen) in held else _sizes(seen)
                tape.judge.lost_line(number, name, id(seen) in held, *sizes)
        self._forget()

    def _line(self, number: int, name: str) -> _Seen:
        """The line and tensor of this number, or the last line of a weight that several change."""
        return self._seen[number] if number >= 0 else replace(self._weights[name].newest)

    def _moved(self) -> Iterable[tuple[str, Any, torch.Tensor, torch.Tensor]]:
        for name, weight in self._weights.items():
            tensor, site = weight.newest.tensor(), weight.newest.site
            if tensor is not None and is_backed(tensor) and not weight.in_parts:
                yield name, (site.file, site.line), weight.before, _sample(tensor)

    def _together(self, name: str) -> Change | None:
        """What several lines come to, at the last one of them."""
        weight = self._weights[name]
        tensor = weight.newest.tensor()
        if tensor is None or not is_backed(tensor):
            return None
        now = _sample(tensor), _sample(weight.newest.reference)
        return compare_change(weight.before, now[0], weight.was, now[1])


def _sizes(seen: _Seen) -> tuple[float, float, float]:
    """The largest magnitude of the reference, the mean one, and the sum of the held ones."""
    tensor = seen.tensor()
    assert tensor is not None
    reference = seen.reference.abs()
    held = tensor.detach().abs().sum(dtype=torch.float64)
    return float(reference.max()), float(reference.mean()), float(held)


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
