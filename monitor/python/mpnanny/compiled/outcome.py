"""One run of a program and everything that it gives: outputs, loss, gradients, and what it has
written into its inputs and buffers.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from ..programs.compiled import running_eagerly
from ..programs.program import SEED, Attempt, Program
from .comparing import Parted, part
from .noise import Noise

Wrap = Callable[[Any], Any]


@dataclass(slots=True)
class Outcome:
    """`phases`: forward, backward or state, by the names of `values`, in the order in which they
    come to be.
    """

    values: dict[str, torch.Tensor] = field(default_factory=dict)
    phases: dict[str, str] = field(default_factory=dict)
    raised: Exception | None = None
    memories: dict[str, int] = field(default_factory=dict)  # that the values lay in

    def add(self, name: str, phase: str, value: torch.Tensor) -> None:
        if name not in self.values:
            self.values[name] = value.detach().clone()
            self.phases[name] = phase
            if value.layout is torch.strided:
                self.memories[name] = value.untyped_storage()._cdata


def run(
    program: Program,
    wrap: Wrap | None = None,
    noise: Noise | None = None,
    mode: AbstractContextManager[Any] | None = None,
) -> Outcome:
    """From the beginning. `wrap`: torch.compile of the target; else code that is compiled inside
    of it runs as it is written. `mode`: hears the forward pass.
    """
    made = Outcome()
    attempt = program.attempt(None)
    inputs = [
        (name, each)
        for name, one in _given(attempt)
        for each in tree_leaves(one)
        if isinstance(each, torch.Tensor)
    ]
    module = attempt.module
    buffers = [] if module is None else list(module.named_buffers())
    seed_all()
    if wrap is not None:
        attempt.run = wrap(attempt.run)
    eagerly = running_eagerly() if wrap is None else contextlib.nullcontext()
    noisy: AbstractContextManager[Any] = noise if noise is not None else contextlib.nullcontext()
    heard = mode if mode is not None else contextlib.nullcontext()
    try:
        with eagerly, noisy, heard:
            program.forward(attempt, contextlib.nullcontext)
            for name, value in attempt.outputs:
                made.add(name, "forward", value)
            if attempt.loss is not None:
                made.add("loss", "forward", attempt.loss)
            if program.derives(attempt):
                program.backward(attempt, program.options.loss_scale or 1.0)
    except Exception as error:
        made.raised = error
        return made
    for name, value in buffers:
        made.add(f"{name} afterwards", "forward", value)
    for name, value in inputs:
        made.add(f"{name} afterwards", "forward", value)
    for name, leaf in attempt.leaves:
        if leaf.grad is not None:
            made.add(f"gradient of {name}", "backward", leaf.grad)
    return made


def _given(attempt: Attempt) -> list[tuple[str, Any]]:
    places = [(f"input {at}", each) for at, each in enumerate(attempt.args)]
    return places + list(attempt.kwargs.items())


def seed_all() -> None:
    """What a program draws with Python and NumPy; torch's is seeded with each forward pass."""
    random.seed(SEED)
    try:
        import numpy

        numpy.random.seed(SEED)
    except ImportError:
        pass


def train(program: Program, wrap: Wrap | None = None, noise: Noise | None = None) -> Outcome:
    """The losses of the training steps, as values `step N`."""
    made = Outcome()
    trained = _Trained(program, wrap)
    eagerly = running_eagerly() if wrap is None else contextlib.nullcontext()
    mode: AbstractContextManager[Any] = noise if noise is not None else contextlib.nullcontext()
    seed_all()
    try:
        with eagerly, mode:
            for step, loss in enumerate(trained.train(None, contextlib.nullcontext, 1.0)):
                made.add(f"loss of step {step}", "step", torch.tensor(loss))
    except Exception as error:
        made.raised = error
    return made


class _Trained(Program):
    """The program with its target wrapped."""

    def __init__(self, program: Program, wrap: Wrap | None) -> None:
        self.__dict__.update(program.__dict__)
        self._wrap = wrap

    def attempt(self, low: torch.dtype | None, widened: bool = False) -> Attempt:
        made = super().attempt(low, widened)
        if self._wrap is not None:
            made.run = self._wrap(made.run)
        return made


def parted(
    eager: Outcome,
    other: Outcome,
    noisy: Sequence[Outcome],
    exact: dict[str, torch.Tensor] | None = None,
) -> list[Parted]:
    """What of `eager` the other run has not, in the order in which it comes to be."""
    names = [*eager.values, *(name for name in other.values if name not in eager.values)]
    found = [
        part(
            name,
            eager.phases.get(name) or other.phases[name],
            eager.values.get(name),
            other.values.get(name),
            [each.values.get(name) for each in noisy],
            (exact or {}).get(name),
        )
        for name in names
    ]
    return [each for each in found if each is not None]
