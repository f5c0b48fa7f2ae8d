"""What planted trainings share: their labels, their list, and a witness that watches them without
the monitor.

A program is a function of `watch` and of a variant (1, 2 or 3), which trains something with one
mistake in it and answers with its Label. `watch` is called as MixedPrecisionNanny is; a Witness
stands in its place when the label's step is to be found independently of the monitor.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

import torch
from torch import nn

WITNESSED = -1  # the first step at which a Witness saw something that is not finite
VARIANTS = (1, 2, 3)
T = TypeVar("T")


@dataclass(frozen=True)
class Label:
    """What is wrong with a run.

    `cause`: the knowledge case, or several where they tell the same. `first_bad`: the first bad
    step; several where two moments are equally right (a wrong rate and the loss after it), None
    where there is no moment. `producer`: the module, or one of several; None where no module made
    it. `phase`: data, forward, loss, backward or optimizer; None where none fits.
    """

    cause: str | tuple[str, ...] | None
    first_bad: int | tuple[int, ...] | None
    phase: str | tuple[str, ...] | None
    producer: str | tuple[str | None, ...] | None
    verdict: str | tuple[str, ...]
    precision: bool = True  # whether numerical precision is to blame


HEALTHY = Label(None, None, None, None, "healthy")

Watch = Callable[..., Any]
Program = Callable[[Watch, int], Label]
PROGRAMS: dict[str, Program] = {}


def planted(program: Program) -> Program:
    """Adds a program to the list."""
    assert program.__name__ not in PROGRAMS, program.__name__
    PROGRAMS[program.__name__] = program
    return program


def pick(variant: int, *choices: T) -> T:
    """The choice of this variant."""
    return choices[variant - 1]


def blobs(
    seed: int, width: int, classes: int, noise: float = 1.0, count: int = 32
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Endless batches of points about one centre a class."""
    source = torch.Generator().manual_seed(seed)
    centres = torch.randn(classes, width, generator=source) * 1.5
    while True:
        y = torch.randint(0, classes, (count,), generator=source)
        yield centres[y] + noise * torch.randn(count, width, generator=source), y


def _finite(value: Any) -> bool:
    """Whether all numbers in a (nested) value are finite."""
    if isinstance(value, torch.Tensor):
        return not value.is_floating_point() or bool(torch.isfinite(value).all())
    if isinstance(value, (list, tuple)):
        return all(_finite(each) for each in value)
    if isinstance(value, dict):
        return all(_finite(each) for each in value.values())
    return True


class Witness:
    """Stands in for the monitor and tells the first step and place of a value that is not finite.

    It looks at every output, every gradient when it is there, the logged loss, and after a step at
    every weight and buffer, with nothing but hooks of torch.
    """

    def __init__(self, model: nn.Module, *_: Any, **__: Any) -> None:
        self.first: tuple[int, str, str | None] | None = None  # step, phase, module
        self.losses: dict[int, float] = {}
        self.number = -1
        self._model = model
        self._inside: list[str] = []
        for name, module in model.named_modules():
            module.register_forward_pre_hook(self._entering(name), with_kwargs=True)
            module.register_forward_hook(self._leaving(name))
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(self._gradient(name))

    def _entering(self, name: str) -> Callable[..., None]:
        def hook(_module: nn.Module, args: Any, kwargs: Any) -> None:
            if not (_finite(args) and _finite(kwargs)):
                if self._inside:
                    self._saw("forward", self._inside[-1])
                else:
                    self._saw("data", None)
            self._inside.append(name)

        return hook

    def _leaving(self, name: str) -> Callable[..., None]:
        def hook(_module: nn.Module, _args: Any, output: Any) -> None:
            self._inside.pop()
            if not _finite(output):
                self._saw("forward", name)

        return hook

    def _gradient(self, name: str) -> Callable[[torch.Tensor], None]:
        def hook(parameter: torch.Tensor) -> None:
            if not _finite(parameter.grad):
                self._saw("backward", name)

        return hook

    def _saw(self, phase: str, place: str | None) -> None:
        if self.first is None:
            self.first = (self.number, phase, place)

    def step(self, number: int) -> Witness:
        self.number = number
        return self

    def log(self, loss: Any = None, lr: Any = None) -> None:
        if loss is not None:
            loss = torch.as_tensor(loss).detach()
            self.losses[self.number] = float(loss)
            if not bool(torch.isfinite(loss)):
                if self.first is not None and self.first[:2] == (self.number, "backward"):
                    self.first = None  # told after the gradients that it made
                self._saw("loss", None)

    def __enter__(self) -> Witness:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for name, value in self._model.state_dict(keep_vars=True).items():
            if not _finite(value):
                self._saw("optimizer", name)

    def close(self) -> None:
        """Nothing to close."""


def labelled(name: str, variant: int) -> tuple[Label, list[Witness]]:
    """Runs a program before witnesses; its label, with the steps that they saw."""
    seen: list[Witness] = []

    def watch(*args: Any, **options: Any) -> Witness:
        seen.append(Witness(*args, **options))
        return seen[-1]

    label = PROGRAMS[name](watch, variant)
    steps = label.first_bad if isinstance(label.first_bad, tuple) else (label.first_bad,)
    if WITNESSED in steps:
        first = seen[-1].first
        assert first is not None, f"{name}, variant {variant}: everything stays finite"
        steps = tuple(sorted({first[0] if step == WITNESSED else step for step in steps}))
    settled = steps if len(steps) > 1 else steps[0]
    return dataclasses.replace(label, first_bad=settled), seen
