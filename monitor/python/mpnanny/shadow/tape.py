"""The tape of a shadow step as it is written: what ran and what was measured, row by row, to the
judge (mpnanny._core.Judge, engines/judgement), which decides what is a finding.

A row whose figures are there is judged at once. Those of tensors on a device come later
(device_figures): such a row waits for them, and every row behind it waits with it, so that all are
judged in their order. settle() ends the waiting.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from .. import _core
from ..fp64.call import Call, Input
from ..fp64.comparison import (
    Change,
    Comparison,
    as_read,
    compare,
    compare_change,
    on_host,
    plain,
)
from ..fp64.dependencies import Dependencies, feeds
from ..fp64.device_figures import Arrived, DeviceFigures
from ..fp64.findings import Cure, Finding, findings_of
from ..fp64.history import History, Layout
from ..fp64.lasting import Origin
from ..fp64.operators import INTEGERS_OF_FLOATS
from ..fp64.places import Site
from ..fp64.references import NONE, Entry, References
from ..fp64.uncertainty import Kept
from ..fp64.unwritten import Unwritten
from ..process.environment import rank_and_size
from .evidence import Evidence, Waiting
from .format_values import FormatValues

# Of results that wait: what the judge may ask about them is asked of the newest ones only.
MOST_WAITING_BYTES = 256 << 20

_ELEMENTS = {getattr(torch, name, None): code for code, name in enumerate(_core.ELEMENTS)}
_OTHER = len(_core.ELEMENTS) - 1
# As in tensor_stats.dtype.
_DTYPES = {
    "float32": 1,
    "float16": 2,
    "bfloat16": 3,
    "float64": 4,
    "float8_e4m3fn": 5,
    "float8_e5m2": 6,
}


def element(dtype: torch.dtype) -> int:
    """The tape's number of a type."""
    return _ELEMENTS.get(dtype, _OTHER)


class Tape:
    """Of one step. `names(tensor)`: of a parameter or buffer, "" of anything else. `lost`: what the
    run remembers of changes that got lost. `first_loss`: the magnitude of the run's first losses.
    `suspects`: the run's places whose results are to be judged at once, by Site.key; False once
    that was done.
    """

    def __init__(
        self,
        references: References,
        history: History,
        names: Callable[[torch.Tensor], str],
        unwritten: Unwritten,
        kept: Kept,
        lost: Any,
        step: int,
        first_loss: float | None,
        suspects: dict[Any, bool],
    ) -> None:
        self._folder = os.environ.get("MPNANNY_TAPE")
        self._step = step
        self.judge = _core.Judge(lost, step, first_loss, bool(self._folder))
        self.references = references
        self.history = history
        self.names = names
        self.unwritten = unwritten
        self.kept = kept
        self.cure_seconds = 0.0
        self._sites: list[Site] = []
        self._places: dict[Any, int] = {}
        self._device = DeviceFigures()
        self._rows: deque[Callable[[], Any]] = deque()  # that wait
        self._arrived = Arrived()
        self._settling = False
        self._change_slots = 0
        self._formats = FormatValues()
        self._sampled: set[tuple[int, int]] = set()  # memory and offset
        self._waiting: deque[Waiting] = deque()
        self._waiting_bytes = 0
        self.suspects = suspects

    # --- what waits ---

    @property
    def waits(self) -> bool:
        """Whether rows, or figures, wait: what the judge knows ends before them."""
        return bool(self._rows) or self._device.waits

    def write(self, row: Callable[..., Any], *fields: Any) -> None:
        """`row`, a method of the judge or one that calls such, behind the rows that wait."""
        if self.waits:
            self._rows.append(partial(row, *fields))
        else:
            row(*fields)

    def settle(self) -> None:
        """What waits comes to the host and is judged. Inside of a row everything before it is."""
        if self._settling or not self.waits:
            return
        self._arrived = self._device.arrive()
        for slot, figures in self._arrived.comparisons:
            self.judge.put(slot, *figures)
        self._waiting.clear()
        self._waiting_bytes = 0
        rows, self._rows = self._rows, deque()
        self._settling = True
        try:
            for row in rows:
                row()
        finally:
            self._settling = False

    def before_write(self, tensors: Iterable[torch.Tensor]) -> None:
        """An operator is about to write `tensors`, which may not have been compared yet."""
        self._device.before_write(each.untyped_storage()._cdata for each in tensors)

    def _wait(self, evidence: Evidence) -> Waiting:
        """What may be asked about a result is kept with it, of the newest ones."""
        waiting = Waiting(evidence, bool(evidence.call.written))
        self._waiting.append(waiting)
        self._waiting_bytes += waiting.bytes
        while self._waiting_bytes > MOST_WAITING_BYTES:
            oldest = self._waiting.popleft()
            self._waiting_bytes -= oldest.bytes
            oldest.go()
        return waiting

    # --- figures ---

    def compare(self, held: torch.Tensor, reference: torch.Tensor) -> int:
        """The slot of the figures; NONE where one of the two cannot be read."""
        return self._compare(held, reference, was_written=False, restarts=False)

    def _compare(
        self, held: torch.Tensor, reference: torch.Tensor, was_written: bool, restarts: bool
    ) -> int:
        held, reference = as_read(held, reference)
        if on_host(held):
            return self.judge.compare(held, reference)
        if not held.numel():
            return NONE
        slot = self.judge.reserve()
        self._device.compare(slot, held, reference, was_written, restarts)
        return slot

    def compare_now(self, held: torch.Tensor, reference: torch.Tensor) -> int:
        """As compare(), of what the judge asks for: the figures are there at once."""
        if on_host(held):
            return self.compare(held, reference)
        slot, found = self.judge.reserve(), compare(held, reference)
        if found is None:
            return NONE
        self.judge.put(slot, *found)
        return slot

    def compare_changes(
        self, tensors: Sequence[tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]]
    ) -> list[Callable[[], Change | None]]:
        """Of each of `tensors` (held before and after, reference before and after) what changed: to
        be asked in a row.
        """
        if not tensors or on_host(tensors[0][0]):
            return [partial(_same, compare_change(*each)) for each in tensors]
        slots = range(self._change_slots, self._change_slots + len(tensors))
        self._change_slots = slots.stop
        lists = ([plain(each) for each in values] for values in zip(*tensors, strict=True))
        self._device.change(slots, *lists)
        return [partial(self._change, slot) for slot in slots]

    def _change(self, slot: int) -> Change | None:
        figures: Any = self._arrived.changes.get(slot)
        return None if figures is None or not figures[0] else Change(*figures)

    def numbers(self, values: torch.Tensor) -> Callable[[], list[float]]:
        """A few numbers, which may lie on a device: to be asked in a row."""
        if on_host(values):
            return partial(_same, values.flatten().tolist())
        at = self._device.sample(values.detach().flatten().to(torch.float64))
        return lambda: self._arrived.samples[at].tolist()

    def figures(self, slot: int) -> Comparison | None:
        self.settle()
        found = self.judge.figures(slot)
        return None if found is None else Comparison(*found)

    def rounding(self, entry: Entry) -> float:
        """Part of the held error below which the reference may be its own rounding."""
        self.settle()
        return self.judge.known(entry.memory)[2]

    def error(self, entry: Entry) -> float:
        """Of what lies there, relative."""
        self.settle()
        return self.judge.known(entry.memory)[0]

    def is_noise(self, entry: Entry) -> bool:
        """Whether the reference is 0 but for its own rounding: errors mean nothing."""
        self.settle()
        return self.judge.known(entry.memory)[1]

    # --- operators ---

    def place(self, site: Site) -> int:
        key = (site.operator, site.forward, site.phase, site.file, site.line, site.module)
        number = self._places.get(key)
        if number is None:
            number = self._places[key] = self.judge.place(*key)
            self._sites.append(site)
        return number

    def begins(self, call: Call, dependencies: Dependencies) -> None:
        """`call` is about to run."""
        node = call.node
        if call.operands and not on_host(call.operands[0].held):
            for each in call.operands:
                if each.slot == NONE:
                    each.slot = self.compare(each.held, each.reference)
                    entry = self.references.entry(each.tensor) if each.held is each.tensor else None
                    if entry is not None and each.slot != NONE:
                        entry.keep(each.tensor, each.slot, was_written=False)
        inputs = [
            (
                each.memory,
                element(each.held.dtype),
                int(each.reference.storage_offset()),
                NONE if each.position is None else each.position,
                each.slot,
                each.read,
            )
            for each in call.operands
        ]
        row = (node.number, self.place(call.site), node.args is not None, inputs)
        if not self.waits:
            known = self.judge.call(*row)
            if known is None:
                return
            errors, wanted = known
            for each, error in zip(call.operands, errors, strict=False):
                each.error = error
            for at, layer in wanted:
                self.judge.formats(layer, self._formats.of(call.operands[at].reference).cpu())
            if errors:
                self._feeds(node.number, errors, list(feeds(call, dependencies)))
            return
        samples = [self._sample(each, call.site) for each in call.operands]
        self._rows.append(partial(self._begins, row, samples, list(feeds(call, dependencies))))

    def _begins(self, row: Any, samples: list[int | None], fed: list[int]) -> None:
        known = self.judge.call(*row)
        if known is None:
            return
        errors, wanted = known
        for at, layer in wanted:
            self._measure_formats(layer, samples[at])
        self._feeds(row[0], errors, fed)

    def _feeds(self, number: int, errors: list[float], fed: list[int]) -> None:
        """Data of a call that meet what is trained are reported where they are wrong."""
        for at in fed:
            if errors and errors[at] > 0:
                self.judge.fed(number, at)

    def _sample(self, read: Input, site: Site) -> int | None:
        """Values on a device that may have left a layer, to measure formats by: their number."""
        made = read.node
        if made is None or not read.read:
            return None
        if (made.site.module, made.site.phase) == (site.module, site.phase):
            return None
        return self._sample_once(read.memory, read.held, read.reference)

    def _sample_once(self, memory: int, held: torch.Tensor, reference: torch.Tensor) -> int | None:
        key = (memory, int(reference.storage_offset()))
        if on_host(reference) or key in self._sampled:
            return None
        self._sampled.add(key)
        return self._device.sample(self._formats.of(reference), held.untyped_storage()._cdata)

    def _measure_formats(self, layer: int, sample: int | None) -> None:
        if sample is not None:
            self.judge.formats(layer, self._arrived.samples[sample])

    def leaves(self, tensor: torch.Tensor, site: Site) -> None:
        """An operator at `site` that is not followed is about to take `tensor`."""
        entry, reference = self.references.entry(tensor), self.references.of(tensor)
        if entry is None or reference is None or entry.node is None:
            return
        place, offset = self.place(site), int(reference.storage_offset())
        row = (entry.memory, place, element(tensor.dtype), offset)
        if self.waits:
            self._rows.append(
                partial(self._leaves, row, self._sample_once(row[0], tensor, reference))
            )
            return
        layer = self.judge.leaves(*row)
        if layer != NONE:
            self.judge.formats(layer, self._formats.of(reference).cpu())

    def _leaves(self, row: Any, sample: int | None) -> None:
        layer = self.judge.leaves(*row)
        if layer != NONE:
            self._measure_formats(layer, sample)

    def result(
        self,
        call: Call,
        index: int,
        held: torch.Tensor,
        reference: torch.Tensor,
        entry: Entry,
        state: str = "",
    ) -> None:
        """An operator has made a result, or written one of its arguments, `state` by name."""
        storage = held.untyped_storage()._cdata
        call.node.outputs.append(
            Layout(storage, tuple(held.shape), tuple(held.stride()), int(held.storage_offset()))
        )
        entry.node = call.node
        entry.doubt = (entry.doubt and bool(call.written)) or any(
            each.doubt for each in call.sources()
        )
        if not held.numel():
            return
        written = bool(call.written)
        if not on_host(held):
            own = self.references.of(held)  # what begins anew is written there
            reference = reference if own is None else own
        slot = self._compare(held, reference, written, restarts=True)
        evidence = Evidence(self, call, index, held, reference)
        row = (
            call.node.number,
            index,
            entry.memory,
            element(held.dtype),
            held.shape,
            NONE if call.position is None else call.position,
            slot,
            call.rounding,
            written,
            state,
        )
        restarts = False
        if not self.waits:
            restarts = self.judge.result(evidence, *row)
        else:
            waiting = self._wait(evidence)
            self._rows.append(lambda: self.judge.result(waiting.evidence(), *row))
        if restarts:
            self.references.restart(held)
        elif slot != NONE:
            entry.keep(held, slot, written)
        if self.waits and self.suspects.get(call.site.key):
            self.suspects[call.site.key] = False
            self.settle()

    def taken_up(self, call: Call, held: torch.Tensor, entry: Entry, made_of: torch.dtype) -> None:
        """`call`, an operator of an earlier step, has made all of the memory of `entry`, which is
        read in this one. `made_of`: the narrowest type in which it did.
        """
        base = entry.base
        call.operands = [Input.of(base, base, base, entry, NONE, None)]
        source = (self.references.number(), element(made_of), 0, NONE, NONE, True)
        self.write(self.judge.call, call.node.number, self.place(call.site), True, [source])
        self.result(call, 0, held, base, entry)

    def origin(self, entry: Entry, dtype: torch.dtype) -> Origin | None:
        """Where the error of what lies there came in."""
        self.settle()
        found = self.judge.source(entry.memory, element(dtype))
        if found is None:
            return None
        (place, words, _), cure, is_finding = found
        made = None if cure is None else Cure(*cure)
        return Origin(self._sites[place], words, made, is_finding)

    def integers(self, call: Call, held: torch.Tensor, reference: torch.Tensor) -> None:
        """Numbers became indices or counts: are they those that the reference makes?"""
        if call.operator.schema_name not in INTEGERS_OF_FLOATS or not call.inputs:
            return
        if held.shape != reference.shape or not held.numel():
            return
        share = self.share_of_others(held, reference)
        row = (call.node.number, 0, element(held.dtype), held.shape)
        evidence = Evidence(self, call, 0, held, reference)
        if not self.waits:
            self.judge.indices(evidence, *row, share())
        else:
            waiting = self._wait(evidence)
            self._rows.append(lambda: self.judge.indices(waiting.evidence(), *row, share()))

    def share_of_others(self, held: torch.Tensor, reference: torch.Tensor) -> Callable[[], float]:
        """Of whole numbers, or of a mask, that are others than the reference's: to be asked in a
        row.
        """
        if on_host(held):
            return partial(_same, (held != reference).sum().item() / held.numel())
        slot, numel = self.compare(held, reference), held.numel()

        def share() -> float:
            found = self.figures(slot)
            return 0.0 if found is None else found.wrong_integers / numel

        return share

    # --- the end ---

    def profiles(self) -> Iterator[tuple[str, int, tuple[Any, ...]]]:
        """What each layer made of its values: module, 0 for its forward pass or 1, and the columns
        of shadow_profile.
        """
        for module, backward, operators, type_, *figures in self.judge.profiles():
            name = _core.ELEMENTS[type_]
            yield module, int(backward), (_DTYPES.get(name), operators, *map(_finite, figures))

    def magnitudes(self) -> dict[Any, float]:
        """Of each place's results: the largest of the reference."""
        return {self._sites[place].key: most for place, most in self.judge.magnitudes()}

    def finish(self) -> list[Finding]:
        """What was found and counts, the worst first."""
        self.settle()
        return findings_of(self.judge.finish(), self._sites)

    def keep(self) -> None:
        """Writes the tape as a file into the folder MPNANNY_TAPE, if that is set."""
        text = self.judge.tape()
        if self._folder and text is not None:
            folder = Path(self._folder)
            folder.mkdir(parents=True, exist_ok=True)
            rank, size = rank_and_size()
            own = f".rank{rank}" if size > 1 else ""
            file = folder / f"step{self._step:08}{own}.tape"
            file.touch(0o600)  # names of the program are in it
            file.write_bytes(text)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _same(value: Any) -> Any:
    return value
