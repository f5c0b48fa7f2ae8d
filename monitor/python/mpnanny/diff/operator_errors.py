"""What each operator of a run adds to the error, beside what it was given.

*Accumulated* is how far a result is from the reference, which was computed in FP64 from the start.
*Local* is how far it is from what the same operator makes in FP64 of the values that it really got.
Both are relative, in the L2 norm; the largest of each place is kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_map

from ..fp64.call import floats, tensors_of
from ..fp64.comparison import Comparison, compare
from ..fp64.operators import COMPLEX, PLAIN, SOFTMAX, Operator, operator_of
from ..fp64.places import Places, Site
from ..fp64.references import wide
from ..operators.as_called import run_as_called
from ..operators.modes import StepMode
from ..operators.places import pass_through
from ..shadow.engine import ShadowMode
from .decisions import Decisions
from .dimensions import Dimension, dimensions

pass_through(__file__)

MOST_ELEMENTS = 1 << 24  # of a result, whose local error is measured
FEWEST_WHOLE = 16  # elements that are not whole numbers by chance


@dataclass(slots=True)
class Row:
    """One operator at one place."""

    site: Site
    number: int  # of its first call
    dtype: torch.dtype
    count: int = 0
    local: float = 0.0
    accumulated: float = 0.0
    absmax: float = 0.0
    nonfinite: int = 0
    squared_local: float = 0.0  # of all its calls
    wrong_whole: float = 0.0  # share, where all of a result are whole numbers in the reference


class OperatorErrors(StepMode):
    """Lies above the `shadow`, whose references are there once the operator has run."""

    supports_higher_order_operators = True

    def __init__(self, shadow: ShadowMode, places: Places, decisions: Decisions) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.rows: dict[Any, Row] = {}
        self.dimensions: dict[int, list[Dimension]] = {}  # of what went in, by number of a finding
        self.decisions = decisions
        self.trouble: list[Exception] = []
        self.in_low = 0  # operators that read or gave a 16-bit or an 8-bit value
        self._shadow = shadow
        self._places = places
        self._seen = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        result = run_as_called(func, args, kwargs)
        if self.looking and self._shadow.looking:
            self.in_low += any(each.itemsize < 4 for each in _dtypes_of((args, kwargs, result)))
        operator = operator_of(func)
        looked_at = self.looking and self._shadow.looking and operator.kind is PLAIN
        if looked_at and not types and not operator.is_list:
            self._shadow.looking = False  # what is computed here is not the program's
            try:
                self._look(operator, func, args, kwargs, result)
            except Exception as error:  # the run goes on without it
                self.looking = False
                self.trouble.append(error)
            finally:
                self._shadow.looking = True
        return result

    def _look(self, operator: Operator, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        outputs = list(floats(result))
        is_decision = len(outputs) < len(list(tensors_of(result)))
        if not outputs and not (is_decision and any(True for _ in floats((args, kwargs)))):
            return
        site = self._places.find(operator.name, keep=False)
        if site is None:
            return
        if is_decision and not operator.draws(args, kwargs):
            self.decisions.made(operator, site, self._shadow.operators, result)
        if not outputs:
            return
        exact = self._exact(operator, func, args, kwargs, outputs[0])
        row = self.rows.get(site.key)
        if row is None:
            number = self._shadow.operators
            row = self.rows[site.key] = Row(site, number, outputs[0].dtype)
        row.count += 1
        for index, held in enumerate(outputs):
            reference = self._shadow.references.of(held)
            if reference is None or not held.numel():
                continue
            entry = self._shadow.references.entry(held)
            tape = self._shadow.tape
            found = None if entry is None else tape.figures(entry.slot_of(held))
            found = found or compare(held, reference)
            if found is None:
                continue
            row.nonfinite += found.range
            row.absmax = max(row.absmax, found.max_held)
            if found.integers and found.numel >= FEWEST_WHOLE:
                row.wrong_whole = max(row.wrong_whole, found.wrong_integers / found.numel)
            noise = entry is not None and tape.is_noise(entry)
            if not noise and math.isfinite(found.error):
                row.accumulated = max(row.accumulated, found.error)
            own = compare(held, exact[index]) if index < len(exact) else None
            if own is not None and not noise and _counts(own):
                row.local = max(row.local, own.error)
                row.squared_local += own.error**2
        self._see_findings(args, kwargs)

    def _see_findings(self, args: Any, kwargs: Any) -> None:
        """The operator that has just run is one of which something was found."""
        self._shadow.tape.settle()
        count, newest = self._shadow.tape.judge.found()
        if count > self._seen:
            inputs = [each for each in floats((args, kwargs)) if each.dim()]
            if inputs:
                largest = max(inputs, key=torch.Tensor.numel)
                self.dimensions[newest] = dimensions(largest)
        self._seen = count

    def _exact(
        self, operator: Operator, func: Any, args: Any, kwargs: Any, held: torch.Tensor
    ) -> list[torch.Tensor]:
        """What FP64 makes of the same inputs; nothing where they are gone or it takes too long."""
        if operator.written or operator.draws(args, kwargs) or held.numel() > MOST_ELEMENTS:
            return []
        if operator.schema_name in SOFTMAX:
            args = (*args[:2], False)
        args, kwargs = tree_map(_widened, (args, kwargs))
        try:
            made = list(tensors_of(func(*args, **kwargs)))
        except Exception:
            return []
        return [each for each in made if each.is_floating_point() or each.is_complex()]


def _dtypes_of(values: Any) -> Iterator[torch.dtype]:
    return (each.dtype for each in floats(values))


def _counts(found: Comparison) -> bool:
    return math.isfinite(found.error) and not found.bad


def _widened(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex()):
        return value.detach().to(wide(value.dtype))
    if isinstance(value, torch.dtype) and (value.is_floating_point or value in COMPLEX):
        return wide(value)
    return value
