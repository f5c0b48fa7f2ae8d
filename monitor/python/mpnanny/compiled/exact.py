"""The eager program's values in FP64: each operator runs a second time on its FP64 operands."""

from __future__ import annotations

import contextlib

import torch

from ..operators.modes import ModeStack
from ..operators.places import pass_through
from ..programs.compiled import running_eagerly
from ..programs.program import Program
from ..shadow.changes import Changes
from ..shadow.memory import allowance
from ..shadow.step import ShadowStep
from .outcome import seed_all

pass_through(__file__)


def exact_values(program: Program) -> dict[str, torch.Tensor]:
    """By the names of Outcome.values, as far as they can be followed."""
    attempt = program.attempt(None)
    module = attempt.module
    modules = {} if module is None else {id(each): name for name, each in module.named_modules()}
    step = ShadowStep(0, modules, Changes(lambda _: None), None, lambda _: None, allowance())
    made: dict[str, torch.Tensor] = {}

    def keep(name: str, tensor: torch.Tensor) -> None:
        reference = step.mode.references.of(tensor)
        if reference is not None and name not in made:
            made[name] = reference.detach().clone().reshape(tensor.shape)

    stack = ModeStack()
    seed_all()
    buffers = [] if module is None else list(module.named_buffers())
    try:
        if not stack.push(step.mode, eager=True):
            return made
        try:
            with running_eagerly():
                program.forward(attempt, contextlib.nullcontext)
                for name, value in attempt.outputs:
                    keep(name, value)
                if attempt.loss is not None:
                    keep("loss", attempt.loss)
                    step.backward_begins([attempt.loss])
                if program.derives(attempt):
                    program.backward(attempt, program.options.loss_scale or 1.0)
        finally:
            stack.remove(step.mode)
        for name, value in buffers:
            keep(f"{name} afterwards", value)
        for name, leaf in attempt.leaves:
            if leaf.grad is not None:
                keep(f"gradient of {name}", leaf.grad)
    except Exception:  # what cannot be followed has no reference
        return made
    return made
