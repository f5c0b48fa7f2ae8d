"""Moments of an optimizer that belong to other parameters than those they were loaded for: the
order of the parameters has changed since they were saved, and equal shapes raise no error.

An optimizer's moments are made of gradients, element by element, and so show whose they are: for
STEPS steps after a load the sizes of each parameter's gradients are compared with the moments that
its like-shaped neighbours were given. It counts where two parameters both fit the other's moments
and not their own. By a few numbers of each, and only after a load.
"""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass
from typing import Any

import torch

from ..fp64.findings import STATE_OF_ANOTHER, Finding
from ..fp64.places import Site
from ..model import checkpoints
from ..model.checkpoints import OptimizerLoad
from ..model.optimizers import parameters_of
from ..model.samples import is_readable, may_read, row
from ..model.selection import Watched
from ..model.watched import WatchedModel
from ..operators.modes import others_on
from ..steps.listeners import StepListener
from ..steps.step import OpenStep
from .watcher import Found, fault

STEPS = 8
NUMBERS = 1024
LEAST = 64  # numbers of a parameter
MOST_PARAMETERS = 512
MOST_ALIKE = 64  # of one shape, the first ones
FITS = 0.4  # correlation of what belongs together, at least
CHANCE = 5.0  # standard deviations of the correlation of what does not
LESS = 0.5  # of that: of what does not


@dataclass(slots=True)
class _Moment:
    parameter: weakref.ref[torch.Tensor]
    given: torch.Tensor  # log of the sizes of what was loaded
    squares: torch.Tensor  # of its gradients since, summed


@dataclass(slots=True)
class _Load:
    load: OptimizerLoad
    groups: list[list[_Moment]]  # those of one shape
    steps: int = 0


class MatchedStates(StepListener):
    """`found(step, findings)` takes what there is to say."""

    name = "states of other parameters"

    def __init__(self, model: WatchedModel, found: Found) -> None:
        self._model = model
        self._found = found
        self._known: weakref.WeakKeyDictionary[Any, _Load | None] = weakref.WeakKeyDictionary()
        self._seen: weakref.WeakKeyDictionary[Any, OptimizerLoad] = weakref.WeakKeyDictionary()

    def optimizer_begins(
        self, step: OpenStep, optimizer: Any, held: Watched, closure: bool
    ) -> None:
        load = checkpoints.newest_load(optimizer)
        if load is None or closure or others_on() or not may_read():
            return
        with torch.no_grad():
            if self._seen.get(optimizer) is not load:
                self._seen[optimizer] = load
                self._known[optimizer] = _begin(optimizer, load)
            known = self._known.get(optimizer)
            if known is None:
                return
            _add(known)
            known.steps += 1
            if known.steps == STEPS:
                self._known[optimizer] = None
                if finding := self._judge(known):
                    self._found(step.number, [finding])

    def _judge(self, known: _Load) -> Finding | None:
        wrong: list[weakref.ref[torch.Tensor]] = []
        of: list[weakref.ref[torch.Tensor]] = []
        for group in known.groups:
            got = _normal(torch.stack([each.given for each in group]))
            made = _normal(torch.stack([_log(each.squares) for each in group]))
            fit = (got @ made.T).cpu()  # of what was given to i with what j's gradients make
            own = fit.diagonal()
            best = fit.argmax(dim=1)
            least = max(FITS, CHANCE / math.sqrt(got.shape[1]))
            for at, to in enumerate(best.tolist()):
                bound = LESS * float(fit[at, to])
                far = float(own[at]) < bound and float(own[to]) < bound
                if at != to and float(fit[at, to]) >= least and far:
                    wrong.append(group[at].parameter)
                    of.append(group[to].parameter)
        if len(wrong) < 2:
            return None
        names = {id(each): name for name, each in self._model.module.named_parameters()}
        total = sum(map(len, known.groups))
        return fault(
            STATE_OF_ANOTHER,
            Site("load_state_dict", "", "state", known.load.file, known.load.line, None),
            "WARNING",
            len(wrong) / total,
            parameters=[names.get(id(each()), "") for each in wrong[:16]],
            what=names.get(id(of[0]()), ""),
            count=len(wrong),
            share=len(wrong) / total,
        )


def _begin(optimizer: Any, load: OptimizerLoad) -> _Load | None:
    """None where no two parameters have one shape."""
    by_shape: dict[Any, list[_Moment]] = {}
    for each in list(parameters_of(optimizer))[:MOST_PARAMETERS]:
        state = optimizer.state.get(each)
        if not isinstance(state, dict) or not is_readable(each) or each.numel() < LEAST:
            continue
        fitting = [one for one in state.values() if isinstance(one, torch.Tensor)]
        fitting = [one for one in fitting if one.shape == each.shape and is_readable(one)]
        if not fitting:
            continue
        # A second moment tells most, and has no sign; a copy of the weights tells nothing.
        moment = next((one for one in fitting if bool((one >= 0).all())), fitting[0])
        given = _log(row(moment, NUMBERS).abs())
        alike = by_shape.setdefault((each.shape, each.device), [])
        if len(alike) < MOST_ALIKE:
            alike.append(_Moment(weakref.ref(each), given, torch.zeros_like(given)))
    groups = [each for each in by_shape.values() if len(each) > 1]
    return _Load(load, groups) if groups else None


def _add(known: _Load) -> None:
    for group in known.groups:
        for each in group:
            parameter = each.parameter()
            gradient = None if parameter is None else parameter.grad
            if gradient is not None and is_readable(gradient):
                each.squares += row(gradient, NUMBERS).square()


def _log(sizes: torch.Tensor) -> torch.Tensor:
    """Of what may be 0; what is not finite says nothing."""
    return sizes.nan_to_num(0.0, 0.0, 0.0).clamp_min(1e-37).log()


def _normal(rows: torch.Tensor) -> torch.Tensor:
    """With mean 0 and norm 1, so that a product of two is their correlation."""
    rows = rows - rows.mean(dim=1, keepdim=True)
    return rows / rows.norm(dim=1, keepdim=True).clamp_min(1e-30)
