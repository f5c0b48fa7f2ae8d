"""One run of a program under a shadow: what was found, and how far outputs, loss and gradients are
from FP64.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import torch

from ..fp64.comparison import compare
from ..fp64.findings import Finding
from ..fp64.history import is_float
from ..operators.modes import ModeStack
from ..operators.places import pass_through
from ..programs.problem import Problem
from ..programs.program import Attempt, Program, Region
from ..shadow.changes import Changes
from ..shadow.memory import allowance
from ..shadow.step import ShadowStep
from .compared import Compared, compare_all, compare_loss
from .decisions import Decisions
from .missing_kernels import MissingKernels
from .operator_errors import OperatorErrors, Row

pass_through(__file__)


@dataclass(slots=True)
class Measured:
    outputs: list[Compared] = field(default_factory=list)
    gradients: list[Compared] = field(default_factory=list)
    loss: float | None = None
    loss_reference: float | None = None
    findings: list[Finding] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    dimensions: dict[int, list[Any]] = field(default_factory=dict)
    raised: Exception | None = None  # by the target
    missing_kernels: set[str] = field(default_factory=set)
    operators: int = 0
    in_low: int = 0  # of these, that read or gave a value of less than 32 bits
    seconds: float = 0.0
    not_followed: list[str] = field(default_factory=list)
    attempt: Attempt | None = None
    decisions: Decisions = field(default_factory=Decisions)
    dtype: torch.dtype = torch.float32  # in which it ran
    size: float = 0.0  # of what was derived: the loss, or the outputs by their gradients


def measure(
    program: Program,
    low: torch.dtype | None,
    region: Region,
    scale: float,
    full: Measured | None = None,
    attempt: Attempt | None = None,
) -> Measured:
    """Runs the program once, from its beginning. `full`: what its run in FP32 has measured, whose
    whole numbers this one's are held against. `attempt`: where the region needs its module.
    """
    made = Measured()
    if attempt is None:
        attempt = program.attempt(low, widened=full is None)
    made.attempt = attempt
    began = time.perf_counter()
    module = attempt.module
    modules = {} if module is None else {id(each): name for name, each in module.named_modules()}
    names: dict[int, str] = {}
    if module is not None:
        for name, each in (*module.named_parameters(), *module.named_buffers()):
            if is_float(each):
                names[each.untyped_storage()._cdata] = name
    trouble: list[Exception] = []
    step = ShadowStep(0, modules, Changes(names.get), None, trouble.append, allowance())
    for held, exact in attempt.exact:
        entry = step.mode.references.set(held, exact)
        entry.new = False
        found = compare(held, exact)
        step.mode.tape.judge.enters(entry.memory, 0.0 if found is None else found.error)
    missing = MissingKernels()
    made.decisions = Decisions(None if full is None else full.decisions)
    errors = OperatorErrors(step.mode, step.places, made.decisions)
    stack = ModeStack()
    modes = (missing, step.mode, errors)
    try:
        if not all(stack.push(each, eager=True) for each in modes):
            why = stack.refusal(eager=True)
            raise Problem(f"Operators cannot be followed: {why}.", kind="Unavailable")
        _run(program, attempt, region, scale, step, made)
    except Problem:
        raise
    except Exception as error:
        made.raised = error
    finally:
        for mode in reversed(modes):
            stack.remove(mode)
    states = () if module is None else list(module.named_buffers())
    made.findings = step.finish(states)
    made.rows = list(errors.rows.values())
    made.dimensions = errors.dimensions
    made.missing_kernels = missing.names
    made.operators = step.mode.operators
    made.in_low = errors.in_low
    made.seconds = time.perf_counter() - began
    made.not_followed = [f"{type(each).__name__}: {each}" for each in (*trouble, *errors.trouble)]
    made.not_followed += sorted(step.mode.restarts)
    return made


def _run(
    program: Program,
    attempt: Attempt,
    region: Region,
    scale: float,
    step: ShadowStep,
    made: Measured,
) -> None:
    program.forward(attempt, region)
    step.reach_outputs([each for _, each in attempt.outputs])
    made.outputs = compare_all(step, attempt.outputs)
    if attempt.loss is not None:
        made.loss, made.loss_reference = compare_loss(step, attempt.loss)
        step.backward_begins([attempt.loss])
    if not program.derives(attempt):
        return
    program.backward(attempt, scale)
    step.gradients(attempt.leaves)
    gradients = [(name, leaf.grad) for name, leaf in attempt.leaves if leaf.grad is not None]
    made.gradients = compare_all(step, gradients)
    sizes = {name: _norm(leaf) for name, leaf in attempt.leaves}
    for each in made.gradients:
        each.size = sizes[each.name]
    made.size = scale * (abs(made.loss) if made.loss is not None else _mean_size(attempt))


def _norm(tensor: torch.Tensor) -> float:
    return float(tensor.detach().to(torch.float64).norm().item())


def _mean_size(attempt: Attempt) -> float:
    """Of the outputs that random gradients of about 1 / numel were given for."""
    outputs = [each for _, each in attempt.outputs if each.requires_grad and each.numel()]
    return sum(_norm(each) / each.numel() for each in outputs)
