"""What a model consists of and what its values are like, from one pass in FP32: for each unit its
operators, the range of its results and gradients, and what each format adds by itself.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map

from ..fp64.call import floats
from ..fp64.operators import PLAIN, operator_of
from ..fp64.places import Places
from ..operators.as_called import run_as_called
from ..operators.modes import ModeStack, StepMode
from ..operators.places import pass_through
from ..programs.program import Attempt, Program
from .assignment import OUTSIDE
from .formats import FORMATS, Format

pass_through(__file__)

MOST_ELEMENTS = 1 << 24  # of a result whose local errors are measured
_LEAST_EXPONENT = -160


@dataclass(slots=True)
class Unit:
    """`kind`: the class of the module. `lines`: where its operators are called, by how many.
    `absmax` and `gradient_absmax` are those of all results of the forward and the backward pass;
    `local`: the largest relative error (L2) that one operator adds in a format, its operands being
    rounded to it, and its result. `exponents`: how many results of the backward pass have a
    magnitude of 2^(e-1) … 2^e, by e.
    """

    name: str
    kind: str
    operators: int = 0
    multiplications: int = 0  # operators that multiply matrices
    weights: int = 0  # elements of its own parameters
    absmax: float = 0.0
    gradient_absmax: float = 0.0
    local: dict[str, float] = field(default_factory=dict)
    lines: Counter[str] = field(default_factory=Counter)
    exponents: Counter[int] = field(default_factory=Counter)


@dataclass(slots=True)
class Anatomy:
    """`trouble`: why the pass could not be followed to its end."""

    units: dict[str, Unit] = field(default_factory=dict)
    trouble: str = ""


_PRODUCTS = frozenset(
    "mm addmm bmm baddbmm convolution convolution_backward addmv mv dot _scaled_dot_product"
    " linear matmul".split()
)


def multiplies(schema_name: str) -> bool:
    """Whether an operator (`aten::mm`) is a product of matrices, a convolution or attention."""
    name = schema_name.rpartition("::")[2]
    return name in _PRODUCTS or name.startswith(("_scaled_dot_product", "mkldnn_"))


class _Look(StepMode):
    supports_higher_order_operators = True

    def __init__(self, anatomy: Anatomy, places: Places, formats: list[Format]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._anatomy = anatomy
        self._places = places
        self._formats = formats
        self._busy = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        result = run_as_called(func, args, kwargs)
        if self.looking and not self._busy and not types:
            self._busy = True
            try:
                self._note(func, args, kwargs, result)
            except Exception as error:
                self.looking = False
                self._anatomy.trouble = f"{type(error).__name__}: {error}"
            finally:
                self._busy = False
        return result

    def _note(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        operator = operator_of(func)
        outputs = [each.detach() for each in floats(result) if each.numel()]
        if not outputs or operator.kind not in (PLAIN, "draw"):
            return
        site = self._places.find(operator.name, keep=True)
        if site is None:
            return
        name = OUTSIDE if site.module is None else site.module
        unit = self._anatomy.units.get(name)
        if unit is None:
            unit = self._anatomy.units[name] = Unit(name, "")
        largest = max(float(each.abs().amax().item()) for each in outputs)
        if site.phase == "backward":
            unit.gradient_absmax = max(unit.gradient_absmax, largest)
            for each in outputs:
                _count(unit.exponents, each)
            return
        unit.operators += 1
        unit.multiplications += multiplies(operator.schema_name)
        unit.absmax = max(unit.absmax, largest)
        if site.source:
            unit.lines[site.source] += 1
        if operator.kind is PLAIN and not operator.written and not operator.is_list:
            for target in self._formats:
                error = _local(func, args, kwargs, outputs[0], target)
                if error is not None:
                    unit.local[target.name] = max(unit.local.get(target.name, 0.0), error)


def _count(counts: Counter[int], values: torch.Tensor) -> None:
    held = values[(values != 0) & values.isfinite()].float()
    if not held.numel():
        return
    exponents = torch.frexp(held).exponent.clamp_min(_LEAST_EXPONENT) - _LEAST_EXPONENT
    for at, count in enumerate(torch.bincount(exponents).tolist()):
        if count:
            counts[at + _LEAST_EXPONENT] += count


def _local(func: Any, args: Any, kwargs: Any, exact: torch.Tensor, target: Format) -> float | None:
    if exact.numel() > MOST_ELEMENTS:
        return None

    def low(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dtype is torch.float32:
            return target.rounded(value.detach())
        return value

    args, kwargs = tree_map(low, (args, kwargs))
    try:
        made = next(floats(func(*args, **kwargs)))
    except Exception:
        return None
    if target.bits == 16:
        made = target.rounded(made)
    finite = exact.isfinite()
    if bool((~made.isfinite() & finite).any()):
        return math.inf
    size = torch.linalg.vector_norm(torch.where(finite, exact, 0.0)).item()
    off = torch.linalg.vector_norm(torch.where(finite, made - exact, 0.0)).item()
    return off / size if size > 0 else (0.0 if off == 0 else math.inf)


def look(program: Program, attempt: Attempt, formats: list[str]) -> Anatomy:
    """Runs `attempt` once in FP32, forward and backward. `formats`: names, whose local errors are
    measured.
    """
    model = attempt.module
    modules = {} if model is None else {id(each): name for name, each in model.named_modules()}
    anatomy = Anatomy()
    stack = ModeStack()
    mode = _Look(anatomy, Places(modules), [FORMATS[name] for name in formats])
    if not stack.push(mode, eager=True):
        anatomy.trouble = stack.refusal(eager=True)
    try:
        program.forward(attempt, contextlib.nullcontext)
        if program.derives(attempt):
            program.backward(attempt, 1.0)
    finally:
        mode.looking = False
        stack.remove(mode)
    for name, module in model.named_modules() if model is not None else ():
        unit = anatomy.units.get(name)
        if unit is not None:
            unit.kind = type(module).__name__
            unit.weights = sum(each.numel() for each in _own(module))
    return anatomy


def _own(module: nn.Module) -> list[nn.Parameter]:
    return list(module.parameters(recurse=False))
