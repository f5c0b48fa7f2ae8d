"""Relations between the loss, gradients, parameters and optimizers that a training needs, measured
in shadow steps: does every parameter that the loss depends on get a gradient, is everything that
gets one updated, and does a gradient belong to this step only?

Each has to fail in every step that was looked at, at least NEEDED of them, before it is said.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from ..fp64.dependencies import Cut, Dependencies, are_zero, is_zero, memory_of
from ..fp64.findings import NO_GRADIENT, NOT_UPDATED, NOT_ZEROED, Finding
from ..fp64.history import is_float
from ..fp64.places import Site, find_call
from ..model.functional import plain
from ..model.optimizers import parameters_of
from ..model.replaced import is_told as replaced_told
from ..model.weights import held_and_owned
from ..operators.modes import own_work
from .partial import PartialCopies
from .shadowed_step import ShadowedStep
from .watcher import fault

NEEDED = 3  # shadow steps
MOST_NAMES = 64

_NOWHERE = Site("", "", "optimizer", "", 0, None)


@dataclass(slots=True)
class _Silent:
    """A parameter without a gradient, so far in every step."""

    parameter: weakref.ref[torch.Tensor]
    name: str
    none: bool
    cut: Cut
    memory: int
    figures: tuple[float, float]
    steps: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Left:
    """A parameter with a gradient that no optimizer is known to hold."""

    parameter: weakref.ref[torch.Tensor]
    name: str
    memory: int
    figures: tuple[float, float]
    steps: set[int] = field(default_factory=set)


class Relations:
    """Of one run. Hears of every step, looks at those with a shadow."""

    def __init__(self, model: weakref.ref[nn.Module], trouble: Callable[[Exception], None]) -> None:
        self._model = model
        self._trouble = trouble
        self._on = True
        self._backwards = 0
        self._backward_at: Site | None = None
        self._stepped_at: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._alive: dict[int, int] = {}  # parameters that got a gradient: in which step last
        self._copies = PartialCopies(model)
        self._stopped: dict[int, _Silent] = {}  # those that get none any more
        self._silent: dict[int, _Silent] = {}
        self._left: dict[int, _Left] = {}
        self._held: set[int] = set()  # by optimizers that were heard
        self._totals: dict[int, int] = {}
        self._moved: set[int] = set()
        self._said: set[tuple[Any, ...]] = set()
        self._zeroing: weakref.WeakKeyDictionary[Any, list[float]] = weakref.WeakKeyDictionary()
        self._settled: set[int] = set()  # optimizers' ids whose gradients were fresh at least once

    def _safe(self, call: Callable[[], Any]) -> Any:
        if not self._on:
            return None
        try:
            with own_work():
                return call()
        except Exception as error:
            self._on = False
            self._trouble(error)
            return None

    # --- what happens ---

    def begins(self, step: ShadowedStep) -> None:
        """A shadow step."""
        self._safe(lambda: self._begins(step.mode.dependencies))
        self._safe(lambda: self._copies.begins(step))

    def _begins(self, dependencies: Dependencies) -> None:
        model = self._model()
        parameters = [] if model is None else [p for p in model.parameters() if _is_plain(p)]
        dependencies.restart()
        dependencies.know(parameters)
        for optimizer, at in list(self._stepped_at.items()):
            if at != self._backwards:
                continue
            used = [each.grad for each in parameters_of(optimizer) if each.grad is not None]
            used = [each for each in used if _is_plain(each)]
            zero = are_zero(used)
            dependencies.mark_old(each for each, is_0 in zip(used, zero, strict=True) if not is_0)

    def backward_begins(self, step: ShadowedStep | None, losses: list[torch.Tensor]) -> None:
        self._backwards += 1
        if step is not None:
            self._safe(lambda: self._derives(step, losses))

    def _derives(self, step: ShadowedStep, losses: list[torch.Tensor]) -> None:
        step.mode.dependencies.loss(losses)
        place = find_call(None, {})
        self._backward_at = Site("backward", "", "backward", place.file, place.line, None)

    def optimizer_begins(self, step: ShadowedStep | None, optimizer: Any) -> None:
        """It is about to use its gradients; `step`: the shadow step that is under way."""
        if step is not None and step.mode.looking:
            self._safe(lambda: self._looks(step, optimizer))
            return
        if self._stopped:
            self._safe(self._look_again)
        if self._silent:
            for key, each in list(self._silent.items()):
                parameter = each.parameter()
                if each.none and parameter is not None and parameter.grad is not None:
                    self._alive.setdefault(key, -1)
                    del self._silent[key]

    def optimizer_ended(self, optimizer: Any) -> None:
        self._stepped_at[optimizer] = self._backwards

    def _look_again(self) -> None:
        """In a step without shadow: what has a gradient there was stopped now and then only."""
        for key, each in list(self._stopped.items()):
            parameter = each.parameter()
            gradient = None if parameter is None else parameter.grad
            said = (NO_GRADIENT, each.cut.site.key) in self._said
            if gradient is not None and _is_plain(gradient) and not said and not is_zero(gradient):
                del self._stopped[key]

    # --- one optimizer's step ---

    def _looks(self, step: ShadowedStep, optimizer: Any) -> None:
        dependencies = step.mode.dependencies
        self._moved |= dependencies.moved
        names = self._names()
        silent: list[tuple[torch.Tensor, Cut]] = []
        fed = old = total = 0
        parameters = list(parameters_of(optimizer))
        gradients = [each.grad for each in parameters if each.grad is not None]
        zero = dict(zip(map(id, gradients), are_zero(gradients), strict=True))
        for parameter in parameters:
            self._held.add(id(parameter))
            if not parameter.requires_grad or not _is_plain(parameter):
                continue
            total += 1
            gradient = parameter.grad
            if gradient is not None and not zero[id(gradient)]:
                fed += 1
                self._alive[id(parameter)] = step.number
                self._stopped.pop(id(parameter), None)
                old += _is_plain(gradient) and dependencies.is_old(gradient)
                continue
            alive = id(parameter) in self._alive
            if not dependencies.reaches_loss(parameter) or (alive and gradient is None):
                continue
            if gradient is None:
                cut = dependencies.cut_of(parameter)
            else:
                reference = step.mode.references.of(gradient)
                if reference is not None and not is_zero(reference):
                    continue
                cut = dependencies.zero_of(gradient)
                if alive and (cut is None or not cut.always):
                    continue  # frozen on purpose, a layer that is dead by now
                cut = cut or dependencies.cut_of(parameter)
            if cut is not None:
                silent.append((parameter, cut))
        if not fed:
            return
        self._count_old(step.number, optimizer, old / fed)
        fed_now = {each for each, at in self._alive.items() if at == step.number}
        beside = _beside(self._model(), fed_now) if silent else set()
        for parameter, cut in silent:
            if parameter.grad is not None and id(parameter) in beside:
                # An operator gets all of a module's: what is 0 all the same cancels out, as for the
                # bias of a critic whose loss is a difference of its outputs.
                continue
            silent_so_far = self._stopped if id(parameter) in self._alive else self._silent
            known = silent_so_far.get(id(parameter))
            if known is None:
                known = silent_so_far[id(parameter)] = _Silent(
                    weakref.ref(parameter),
                    names.get(id(parameter), ""),
                    parameter.grad is None,
                    cut,
                    memory_of(parameter),
                    _figures(parameter),
                )
            known.steps.add(step.number)
            self._totals[id(parameter)] = total
        self._look_at_others(step, dependencies, names)

    def _count_old(self, number: int, optimizer: Any, share: float) -> None:
        if optimizer not in self._stepped_at:
            return  # its first step
        if share == 0:
            self._settled.add(id(optimizer))
        if id(optimizer) not in self._settled:
            self._zeroing.setdefault(optimizer, []).append(share)

    def _look_at_others(
        self, step: ShadowedStep, dependencies: Dependencies, names: dict[int, str]
    ) -> None:
        model = self._model()
        found = [] if model is None else list(model.parameters())
        others = [
            each
            for each in (*found, *dependencies.leaves.values())
            if id(each) not in self._held and _is_plain(each) and each.requires_grad
        ]
        others = [each for each in others if each.grad is not None]
        zero = are_zero([each.grad for each in others if each.grad is not None])
        for parameter, is_0 in zip(others, zero, strict=True):
            key = id(parameter)
            if is_0 or not dependencies.reaches_loss(parameter):
                continue
            known = self._left.get(key)
            if known is None or known.parameter() is not parameter:
                known = self._left[key] = _Left(
                    weakref.ref(parameter),
                    names.get(key, ""),
                    memory_of(parameter),
                    _figures(parameter),
                )
            known.steps.add(step.number)

    def _names(self) -> dict[int, str]:
        model = self._model()
        return {} if model is None else {id(p): name for name, p in model.named_parameters()}

    # --- the end of a shadow step ---

    def found(self, step: ShadowedStep) -> list[Finding]:
        """What holds in every step so far and was not said."""
        self._moved |= step.mode.dependencies.moved
        found = self._safe(
            lambda: [
                *self._cut_off(),
                *self._not_updated(),
                *self._not_zeroed(),
                *self._copies.found(step),
            ]
        )
        return found or []

    def _cut_off(self) -> Iterable[Finding]:
        by_place: dict[Any, list[_Silent]] = {}
        for key, each in list(self._stopped.items()):
            if each.parameter() is None or each.memory in self._moved:
                del self._stopped[key]
            elif len(each.steps) >= NEEDED:
                by_place.setdefault(each.cut.site.key, []).append(each)
        for key, each in list(self._silent.items()):
            parameter = each.parameter()
            if parameter is None or key in self._alive or each.memory in self._moved:
                del self._silent[key]
            elif len(each.steps) >= NEEDED:
                if each.none and _figures(parameter) != each.figures:  # an average, a target
                    del self._silent[key]
                else:
                    by_place.setdefault(each.cut.site.key, []).append(each)
        for key, these in by_place.items():
            if not self._is_new(NO_GRADIENT, key):
                continue
            first = these[0]
            site = first.cut.site  # a line calls the forward operator, also where that shows later
            site = replace(site, operator=site.forward or site.operator)
            total = max(self._totals.get(id(each.parameter()), 1) for each in these)
            until = max((self._alive.get(id(each.parameter()), -1) for each in these), default=-1)
            yield fault(
                NO_GRADIENT,
                site,
                "WARNING",
                len(these) / max(total, len(these)),
                **({"until": until} if until >= 0 else {}),
                parameters=[each.name for each in these[:MOST_NAMES]],
                count=len(these),
                steps=min(len(each.steps) for each in these),
                since=min(min(each.steps) for each in these),
                none=all(each.none for each in these),
            )

    def _not_updated(self) -> Iterable[Finding]:
        ready = [each for each in self._left.values() if len(each.steps) >= NEEDED]
        if not ready or not self._is_new(NOT_UPDATED, (len(ready),)):
            return
        held, owned = held_and_owned()
        self._held |= held
        model = self._model()
        siblings = _beside(model, held)
        # Who trains a few of the parameters only, as the biases, has chosen them.
        of_model = [] if model is None else list(model.parameters())
        most = 2 * sum(id(each) in held for each in of_model) > len(of_model)
        stranded = self._stranded(owned)
        groups: dict[str, list[_Left]] = {"WARNING": [], "INFO": []}
        for each in ready:
            parameter = each.parameter()
            if parameter is None or id(parameter) in held or each.memory in self._moved:
                continue
            if replaced_told(parameter):
                continue
            if _figures(parameter) != each.figures:
                continue
            alone = isinstance(parameter, nn.Parameter) and id(parameter) not in owned
            severe = alone or stranded or (most and id(parameter) in siblings)
            groups["WARNING" if severe else "INFO"].append(each)
        for severity, these in groups.items():
            if these:
                yield fault(
                    NOT_UPDATED,
                    Site("", "", "optimizer", "", 0, these[0].name.rpartition(".")[0] or None),
                    severity,
                    1.0,
                    **({"stranded": stranded} if stranded else {}),
                    parameters=[each.name for each in these[:MOST_NAMES]],
                    count=len(these),
                    steps=min(len(each.steps) for each in these),
                    since=min(min(each.steps) for each in these),
                )

    def _stranded(self, owned: set[int]) -> int:
        """How many parameters the optimizers hold that are in no module and never got a gradient:
        those of a module that was replaced after the optimizer had been given them. Nobody wants
        that, while to give it a part of the model may be a choice.
        """
        return sum(
            isinstance(each, nn.Parameter)
            and each.requires_grad
            and each.grad is None
            and id(each) not in owned
            and id(each) not in self._alive
            for optimizer in self._stepped_at
            for each in parameters_of(optimizer)
        )

    def _not_zeroed(self) -> Iterable[Finding]:
        for optimizer, shares in list(self._zeroing.items()):
            if id(optimizer) in self._settled or len(shares) < NEEDED:
                continue
            if not self._is_new(NOT_ZEROED, (id(optimizer),)):
                continue
            yield fault(
                NOT_ZEROED,
                self._backward_at or _NOWHERE,
                "ERROR",
                min(shares),
                steps=len(shares),
                share=min(shares),
            )

    def _is_new(self, kind: str, key: tuple[Any, ...]) -> bool:
        new = (kind, key) not in self._said
        self._said.add((kind, key))
        return new


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether it has memory of its own that can be read: not what torch.func puts in its place."""
    known = type(tensor) in (torch.Tensor, nn.Parameter) and is_float(tensor)
    return known and plain(tensor) is tensor


def _figures(tensor: torch.Tensor) -> tuple[float, float]:
    """Two sums that are other ones as soon as a value is."""
    values = tensor.detach().double()
    return float(values.sum()), float(values.abs().sum())


def _beside(model: nn.Module | None, ids: set[int]) -> set[int]:
    """Parameters of the modules that some of `ids` belong to."""
    found: set[int] = set()
    for module in () if model is None else model.modules():
        own = {id(each) for each in module.parameters(recurse=False)}
        if own & ids:
            found |= own
    return found
