"""What the judge asks about a result (engines/judgement/evidence.h), answered from its tensors.

Of a device the questions come when the step is over: a result waits with its tensors, of the newest
ones; of the others nothing is known that only tensors can tell.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, Protocol

import torch

from ..fp64.call import Call, Result
from ..fp64.comparison import on_host
from ..fp64.cure import Suspect, find_cure
from ..fp64.entering import decides
from ..fp64.findings import Cure
from ..fp64.history import History, is_backed, is_float, version_of
from ..fp64.noise import depends_on_noise, is_noise_of_elements
from ..fp64.operators import holds_nonfinite_number
from ..fp64.references import NONE, Entry, References
from ..fp64.singular import singular
from ..fp64.uncertainty import ROUNDED, Kept
from ..fp64.unwritten import Unwritten
from ..fp64.witness import operands
from . import carriers

MOST_CURE_SECONDS = 2.0  # that searching for cures may take in a step
GONE = "its operands were gone when the device had answered: tried in the next shadow step"


class Step(Protocol):
    """What of a step is needed for an answer (shadow/tape.py)."""

    judge: Any
    references: References
    history: History
    names: Callable[[torch.Tensor], str]
    unwritten: Unwritten
    kept: Kept
    suspects: dict[Any, bool]
    cure_seconds: float

    def compare_now(self, held: torch.Tensor, reference: torch.Tensor) -> int: ...
    def rounding(self, entry: Entry) -> float: ...


class Evidence(Result):
    """While the tensors are there."""

    __slots__ = ("_tape", "suspects")

    def __init__(
        self, tape: Step, call: Call, index: int, held: torch.Tensor, reference: torch.Tensor
    ) -> None:
        super().__init__(call, index, held, reference)
        self._tape = tape
        self.suspects = tape.suspects

    def input(self, at: int) -> int:
        each = self.call.operands[at]
        if each.slot == NONE:
            each.slot = self._tape.compare_now(each.held, each.reference)
        return each.slot

    def index_figures(self) -> int:
        held, reference = (each.to(torch.float64) for each in (self.held, self.reference))
        return self._tape.compare_now(held, reference)

    def fills(self) -> bool:
        return holds_nonfinite_number((self.call.node.args, self.call.node.kwargs))

    def depends_on_noise(self, noise: list[int]) -> bool:
        return depends_on_noise(self, [self.call.operands[at] for at in noise])

    def is_noise_of_elements(self, error: float) -> bool:
        return is_noise_of_elements(self, self._tape.references, self._tape.rounding, error)

    def rounding_decides(self) -> bool | str:
        try:
            doubt = any(each.doubt for each in self.call.sources())
            kept = self._tape.kept
            return decides(self.call.node, self.index, self.held, doubt, kept)
        except Exception as error:
            return f"not tried: {type(error).__name__}"

    def operands(self) -> list[list[float]] | None:
        return operands(self)

    def singular(self) -> tuple[bool, float, float, str, str] | None:
        tape = self._tape
        return singular(self, tape.history.newest(), tape.references)

    def made_unwritten(self, at: int) -> str | None:
        site = self._tape.unwritten.of(self.call.operands[at].tensor)
        return None if site is None else site.source

    def is_above_zero(self, at: int) -> bool:
        return bool((self.call.operands[at].held > 0).any())

    def owner(self, at: int) -> tuple[str, bool, bool]:
        tensor = self.call.operands[at].tensor
        entry = self._tape.references.entry(tensor)
        is_doubtful = entry is not None and entry.ulp > ROUNDED
        name = self._tape.names(tensor) or carriers.owner(tensor)
        return name, carriers.is_state(tensor), is_doubtful

    def find_cure(
        self, kind: str, before: float, narrow: bool
    ) -> tuple[list[str], list[str], str, float, float | None] | str:
        if self.call.cured is not None:
            return _words(self.call.cured(before))
        tape = self._tape
        reference = self.reference
        if not is_float(reference):
            reference = reference.to(torch.float64)  # indices
        dtype = self.held.dtype
        suspect = Suspect(self.call.node, self.index, reference, kind, dtype, tape.judge.worst)
        began = time.thread_time()
        deadline = began + max(0.0, MOST_CURE_SECONDS - tape.cure_seconds)
        try:
            found = find_cure(suspect, before, narrow, deadline)
        except Exception as error:
            found = f"not tried: {type(error).__name__}"
        tape.cure_seconds += time.thread_time() - began
        if isinstance(found, str) and not on_host(self.held):
            self.suspects.setdefault(
                self.call.site.key, True
            )  # an operand may have been overwritten
        return _words(found)


def _words(
    found: Cure | str,
) -> tuple[list[str], list[str], str, float, float | None] | str:
    """As the judge reads it."""
    if isinstance(found, str):
        return found
    after = math.nan if found.error_after is None else found.error_after
    return found.lines, found.operators, found.what, found.error_before, after


class Waiting:
    """What may be asked about a result that waits."""

    __slots__ = ("_evidence", "_versions", "bytes")

    def __init__(self, evidence: Evidence, was_written: bool) -> None:
        self._evidence: Evidence | Gone = evidence
        version = version_of(evidence.held)
        self._versions = (version, version + was_written)  # torch counts a write after it was made
        tensors = [evidence.held]
        if evidence.index == 0:  # what the results of a call are made of is kept once
            tensors += [each.held for each in evidence.call.operands]
        # With the references, whose elements have eight bytes.
        self.bytes = sum(each.numel() * (each.element_size() + 8) for each in tensors)

    def evidence(self) -> Evidence | Gone:
        """Who answers by now."""
        if isinstance(self._evidence, Evidence):
            held = self._evidence.held
            if version_of(held) not in self._versions or not is_backed(held):
                self.go()
        return self._evidence

    def go(self) -> None:
        """Its tensors are needed no more."""
        if isinstance(self._evidence, Evidence):
            self._evidence = Gone(self._evidence)


class Gone:
    """The same after the tensors had to go: what only they can tell is not known."""

    def __init__(self, evidence: Evidence) -> None:
        self._suspects = evidence.suspects
        self._key = evidence.call.site.key
        self._slots = [each.slot for each in evidence.call.operands]
        node = evidence.call.node
        self._fills = holds_nonfinite_number((node.args, node.kwargs))

    def input(self, at: int) -> int:
        return self._slots[at]

    def index_figures(self) -> int:
        return NONE

    def fills(self) -> bool:
        return self._fills

    def depends_on_noise(self, noise: list[int]) -> bool:
        return True

    def is_noise_of_elements(self, error: float) -> bool:
        return False

    def rounding_decides(self) -> bool | str:
        return self._later()

    def operands(self) -> list[list[float]] | None:
        return None

    def singular(self) -> None:
        return None

    def made_unwritten(self, at: int) -> str | None:
        return None

    def is_above_zero(self, at: int) -> bool:
        return False

    def owner(self, at: int) -> tuple[str, bool, bool]:
        return "", False, True

    def find_cure(self, kind: str, before: float, narrow: bool) -> str:
        return self._later()

    def _later(self) -> str:
        self._suspects.setdefault(self._key, True)
        return GONE
