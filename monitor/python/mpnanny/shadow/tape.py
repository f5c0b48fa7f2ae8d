"""The tape of a shadow step as it is written: what ran and what was measured, row by row, to the
judge (mpnanny._core.Judge, engines/judgement), which decides what is a finding.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from .. import _core
from ..fp64.call import Call, Result
from ..fp64.comparison import Comparison, as_read, on_device
from ..fp64.cure import Suspect, find_cure
from ..fp64.entering import decides
from ..fp64.findings import Finding, findings_of
from ..fp64.history import Layout, is_float
from ..fp64.noise import depends_on_noise, is_noise_of_elements
from ..fp64.operators import INTEGERS_OF_FLOATS, holds_nonfinite_number
from ..fp64.places import Site
from ..fp64.references import NONE, Entry, References
from ..fp64.unwritten import Unwritten
from ..fp64.witness import operands
from ..process.environment import rank_and_size
from . import carriers
from .format_values import format_values

MOST_CURE_SECONDS = 2.0  # that searching for cures may take in a step

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
    """

    def __init__(
        self,
        references: References,
        names: Callable[[torch.Tensor], str],
        unwritten: Unwritten,
        lost: Any,
        step: int,
        first_loss: float | None,
    ) -> None:
        self._folder = os.environ.get("MPNANNY_TAPE")
        self._step = step
        self.judge = _core.Judge(lost, step, first_loss, bool(self._folder))
        self.references = references
        self.names = names
        self.unwritten = unwritten
        self.cure_seconds = 0.0
        self._sites: list[Site] = []
        self._places: dict[Any, int] = {}

    # --- figures ---

    def compare(self, held: torch.Tensor, reference: torch.Tensor) -> int:
        """The slot of the figures; NONE where one of the two cannot be read."""
        held, reference = as_read(held, reference)
        if held.device.type == "cpu":
            return self.judge.compare(held, reference)
        return self.judge.put(*on_device(held, reference)) if held.numel() else NONE

    def figures(self, slot: int) -> Comparison | None:
        found = self.judge.figures(slot)
        return None if found is None else Comparison(*found)

    def rounding(self, entry: Entry) -> float:
        """Part of the held error below which the reference may be its own rounding."""
        return self.judge.known(entry.memory)[2]

    def error(self, entry: Entry) -> float:
        """Of what lies there; 0 of what is 0 but for rounding."""
        error, noise, _ = self.judge.known(entry.memory)
        return 0.0 if noise else error

    def is_noise(self, entry: Entry) -> bool:
        """Whether the reference is 0 but for its own rounding: errors mean nothing."""
        return self.judge.known(entry.memory)[1]

    # --- operators ---

    def place(self, site: Site) -> int:
        key = (site.operator, site.forward, site.phase, site.file, site.line, site.module)
        number = self._places.get(key)
        if number is None:
            number = self._places[key] = self.judge.place(*key)
            self._sites.append(site)
        return number

    def begins(self, call: Call) -> bool:
        """`call` is about to run. Whether something of what it reads has an error."""
        node = call.node
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
        known = self.judge.call(node.number, self.place(call.site), node.args is not None, inputs)
        if known is None:
            return False
        errors, wanted = known
        for each, error in zip(call.operands, errors, strict=False):
            each.error = error
        for at, layer in wanted:
            self.judge.formats(layer, format_values(call.operands[at].reference))
        return bool(errors)

    def leaves(self, tensor: torch.Tensor, site: Site) -> None:
        """An operator at `site` that is not followed is about to take `tensor`."""
        entry, reference = self.references.entry(tensor), self.references.of(tensor)
        if entry is None or reference is None or entry.node is None:
            return
        place, offset = self.place(site), int(reference.storage_offset())
        layer = self.judge.leaves(entry.memory, place, element(tensor.dtype), offset)
        if layer != NONE:
            self.judge.formats(layer, format_values(reference))

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
        if not held.numel():
            return
        slot = self.compare(held, reference)
        restarts = self.judge.result(
            _Evidence(self, call, index, held, reference),
            call.node.number,
            index,
            entry.memory,
            element(held.dtype),
            held.shape,
            NONE if call.position is None else call.position,
            slot,
            call.rounding,
            bool(call.written),
            state,
        )
        if restarts:
            self.references.restart(held)
        elif slot != NONE:
            entry.keep(held, slot, bool(call.written))

    def integers(self, call: Call, held: torch.Tensor, reference: torch.Tensor) -> None:
        """Numbers became indices or counts: are they those that the reference makes?"""
        if call.operator.schema_name not in INTEGERS_OF_FLOATS or not call.inputs:
            return
        if held.shape != reference.shape or not held.numel():
            return
        share = (held != reference).sum().item() / held.numel()
        self.judge.indices(
            _Evidence(self, call, 0, held, reference),
            call.node.number,
            0,
            element(held.dtype),
            held.shape,
            share,
        )

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


class _Evidence(Result):
    """What the judge asks about a result (engines/judgement/evidence.h)."""

    __slots__ = ("_tape",)

    def __init__(
        self, tape: Tape, call: Call, index: int, held: torch.Tensor, reference: torch.Tensor
    ) -> None:
        super().__init__(call, index, held, reference)
        self._tape = tape

    def input(self, at: int) -> int:
        each = self.call.operands[at]
        if each.slot == NONE:
            each.slot = self._tape.compare(each.held, each.reference)
        return each.slot

    def index_figures(self) -> int:
        held, reference = (each.to(torch.float64) for each in (self.held, self.reference))
        return self._tape.compare(held, reference)

    def fills(self) -> bool:
        return holds_nonfinite_number((self.call.node.args, self.call.node.kwargs))

    def depends_on_noise(self, noise: list[int]) -> bool:
        return depends_on_noise(self, [self.call.operands[at] for at in noise])

    def is_noise_of_elements(self, error: float) -> bool:
        return is_noise_of_elements(self, self._tape.references, self._tape.rounding, error)

    def rounding_decides(self) -> bool | str:
        try:
            return decides(self.call.node, self.index, self.held)
        except Exception as error:
            return f"not tried: {type(error).__name__}"

    def operands(self) -> list[list[float]] | None:
        return operands(self)

    def made_unwritten(self, at: int) -> str | None:
        site = self._tape.unwritten.of(self.call.operands[at].tensor)
        return None if site is None else site.source

    def is_above_zero(self, at: int) -> bool:
        return bool((self.call.operands[at].held > 0).any())

    def owner(self, at: int) -> tuple[str, bool]:
        tensor = self.call.operands[at].tensor
        return self._tape.names(tensor) or carriers.owner(tensor), carriers.is_state(tensor)

    def find_cure(
        self, kind: str, before: float, narrow: bool
    ) -> tuple[list[str], list[str], str, float, float | None] | str:
        tape = self._tape
        reference = self.reference
        if not is_float(reference):
            reference = reference.to(torch.float64)  # indices
        dtype = self.held.dtype
        suspect = Suspect(self.call.node, self.index, reference, kind, dtype, tape.judge.worst)
        began = time.perf_counter()
        deadline = began + max(0.0, MOST_CURE_SECONDS - tape.cure_seconds)
        try:
            found = find_cure(suspect, before, narrow, deadline)
        except Exception as error:
            found = f"not tried: {type(error).__name__}"
        tape.cure_seconds += time.perf_counter() - began
        if isinstance(found, str):
            return found
        after = math.nan if found.error_after is None else found.error_after
        return found.lines, found.operators, found.what, found.error_before, after
