"""Parameters that an optimizer goes on with although the model has others in their place: a module
or a weight that was set anew, load_state_dict(assign=True), after the optimizer was made.

Two identities show it: what the optimizer holds was in a module, and something else is there now.
It counts where that got a gradient before NEEDED steps of this optimizer, nothing has changed it
meanwhile and no optimizer of the process holds it. A step without replacements costs a comparison
of two counts.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any

import torch

from ..fp64.findings import NOT_UPDATED, Finding
from ..fp64.places import Site
from ..model import replaced
from ..model.optimizers import ids_of, parameters_of
from ..model.samples import is_readable, row
from ..model.weights import held_and_owned
from ..steps.context import RunContext
from .watcher import Found, LoopWatcher, fault

NEEDED = 3  # steps of the optimizer
NUMBERS = 64
MOST_NAMES = 16
LOOKS = 64  # steps until a parameter without a gradient is left alone


@dataclass(slots=True)
class _Case:
    """A parameter of the model that has another one's place, which `optimizer` holds."""

    name: str
    place: str  # file:line where it was put there
    new: weakref.ref[torch.Tensor]
    optimizer: weakref.ref[Any]
    numbers: torch.Tensor | None = None  # when it first had a gradient
    steps: list[int] = field(default_factory=list)
    looks: int = 0


class ReplacedWeights(LoopWatcher):
    """`found(step, findings)` takes what there is to say."""

    name = "weights that were replaced"
    reads_gradients = True

    def __init__(self, run: RunContext, found: Found) -> None:
        super().__init__(run, found)
        self._looked: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._cases: list[_Case] = []
        self._said: set[int] = set()  # ids of optimizers, of which nothing more is to be said

    def has_said(self, optimizer: Any) -> bool:
        return id(optimizer) in self._said

    def heard_optimizer_begins(self, optimizer: Any, closure: bool) -> None:
        if self._cases or self._looked.get(optimizer, 0) != replaced.count():
            self.safely(lambda: self._look(optimizer))

    def _look(self, optimizer: Any) -> None:
        count = replaced.count()
        if self._looked.get(optimizer, 0) != count:
            self._looked[optimizer] = count
            self._cases = [each for each in self._cases if each.optimizer() is not optimizer]
            if id(optimizer) not in self._said:
                self._cases += _cases_of(optimizer, self._model.module)
        own = [each for each in self._cases if each.optimizer() is optimizer]
        ready = [each for each in own if not self._goes_on(each) or len(each.steps) >= NEEDED]
        if not ready:
            return
        held, _ = held_and_owned()
        self._cases = [each for each in self._cases if each not in ready]
        these = [each for each in ready if each.steps and id(each.new()) not in held]
        if these:
            self._said.add(id(optimizer))
            replaced.tell(each.new() for each in these)
            self._found(self._number, [_finding(these, optimizer)])

    def _goes_on(self, case: _Case) -> bool:
        """Whether the optimizer leaves it alone although it has a gradient; false ends the case."""
        new = case.new()
        if new is None or not is_readable(new):
            case.steps.clear()
            return False
        gradient = new.grad
        if gradient is None or not is_readable(gradient) or not bool(gradient.any()):
            case.looks += 1
            return case.looks < LOOKS  # it is not trained as yet
        numbers = row(new, NUMBERS)
        if case.numbers is None:
            case.numbers = numbers.clone()
        elif not torch.equal(case.numbers, numbers):
            case.steps.clear()
            return False
        case.steps.append(self._number)
        return True


def _cases_of(optimizer: Any, module: torch.nn.Module) -> list[_Case]:
    ids = ids_of(optimizer)
    found = []
    for name, each in module.named_parameters():
        if id(each) in ids:
            continue
        for old, place in replaced.earlier(each):
            if id(old) in ids:
                found.append(_Case(name, place, weakref.ref(each), weakref.ref(optimizer)))
                break
    return found


def _finding(cases: list[_Case], optimizer: Any) -> Finding:
    file, _, line = cases[0].place.rpartition(":")
    idle = all(each.grad is None for each in parameters_of(optimizer))
    return fault(
        NOT_UPDATED,
        Site("", "", "optimizer", file, int(line or 0), cases[0].name.rpartition(".")[0] or None),
        "ERROR" if idle else "WARNING",  # it changes nothing any more
        1.0,
        stranded=len(cases),
        parameters=[each.name for each in cases[:MOST_NAMES]],
        count=len(cases),
        steps=min(len(each.steps) for each in cases),
        since=min(each.steps[0] for each in cases),
    )
