"""Loads that the next optimizer step undoes: weights jump to other values, and with one step of the
optimizer they are back where they were, because it writes copies of its own over them (FP32 master
weights that were made before the load, or not restored with it).

A few numbers of a few weights are kept at each optimizer step, without reading them; every LOOK
steps they are sent for together, and read when they have arrived. What a usual step is follows from
the steps before and after.
"""

from __future__ import annotations

import weakref
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import torch

from ..base.later import Parcel
from ..fp64.findings import LOAD_UNDONE
from ..fp64.places import Site, find_call
from ..model.loads import NUMBERS, before_loads, count, place_of_load
from ..model.samples import is_readable, may_read, row
from ..model.selection import Watched
from ..model.watched import WatchedModel
from ..operators.modes import others_on
from ..steps.listeners import StepListener
from ..steps.step import OpenStep
from .watcher import Found, fault

MOST_WEIGHTS = 8
KEPT = 40  # steps
LOOK = 16  # steps
AFTER = 3  # steps that have to follow the jump back
USUAL = 6  # steps, at least, that say what is usual
FAR = 10.0  # times a usual step
NEAR = 0.2  # of the jump: how near to where they were weights come back
CALM = 5.0  # times a usual step: the steps around the jumps


@dataclass(slots=True)
class _Asked:
    """What is on its way to be judged: what the weights held at `steps`."""

    held: Parcel
    before: list[Parcel]  # for each load before the first of the steps
    steps: list[int]  # the training's numbers
    loads: list[int]  # so far, at each

    def parcels(self) -> list[Parcel]:
        return [self.held, *self.before]


@dataclass(slots=True)
class _Trace:
    """The weights of one optimizer, as it is about to step."""

    weights: list[weakref.ref[torch.Tensor]]
    before: list[list[torch.Tensor]]  # for each load before its first step, what they held
    at: deque[torch.Tensor] = field(default_factory=lambda: deque(maxlen=KEPT))
    steps: deque[int] = field(default_factory=lambda: deque(maxlen=KEPT))  # the training's numbers
    loads: deque[int] = field(default_factory=lambda: deque(maxlen=KEPT))  # so far
    count: int = 0
    site: Site | None = None  # of the optimizer's step
    asked: _Asked | None = None


class UndoneLoads(StepListener):
    """`found(step, findings)` takes what there is to say."""

    name = "loads that are undone"

    def __init__(self, model: WatchedModel, found: Found) -> None:
        self._model = model
        self._found = found
        self._traces: weakref.WeakKeyDictionary[Any, _Trace] = weakref.WeakKeyDictionary()
        self._said = False

    def optimizer_begins(
        self, step: OpenStep, optimizer: Any, held: Watched, closure: bool
    ) -> None:
        if closure or self._said or others_on() or not may_read():
            return
        with torch.no_grad():
            trace = self._traces.get(optimizer)
            if trace is None:
                trace = self._traces[optimizer] = _begin(held)
            weights = [each() for each in trace.weights]
            if not weights or any(each is None for each in weights):
                return
            rows = [row(each, NUMBERS) for each in weights if each is not None]
            trace.at.append(torch.cat(rows))
            trace.steps.append(step.number)
            trace.loads.append(count())
            trace.count += 1
            if trace.count % LOOK == 0:
                trace.asked = _ask(trace)
            asked = trace.asked
            if asked is not None and all(each.arrived() for each in asked.parcels()):
                trace.asked = None
                self._look(trace, asked)

    def run_ends(self) -> None:
        with torch.no_grad():
            for trace in list(self._traces.values()):
                asked = None if self._said else _ask(trace)
                if asked is not None:
                    for each in asked.parcels():
                        each.wait()
                    self._look(trace, asked)

    def _look(self, trace: _Trace, asked: _Asked) -> None:
        held = asked.held.value.double()
        for before in asked.before:
            first = before.value.double()
            if first.shape == held[0].shape:
                self._judge(trace, asked, torch.cat([first[None], held]), 1)
        self._judge(trace, asked, held, 0)

    def _judge(self, trace: _Trace, asked: _Asked, held: torch.Tensor, more: int) -> None:
        """`held`: rows of what the weights held, the first `more` of them before the training."""
        moves = (held[1:] - held[:-1]).norm(dim=1)
        if len(moves) < USUAL + 2 or not bool(moves.isfinite().all()):
            return
        usual = float(moves.median())
        for at in range(1 if more else len(moves) - 1 - AFTER):
            jump, back = float(moves[at]), float(moves[at + 1])
            left = float((held[at + 2] - held[at]).norm())
            around = [
                *moves[max(0, at - 2) : at].tolist(),
                *moves[at + 2 : at + 2 + AFTER].tolist(),
            ]
            if usual <= 0 or min(jump, back) < FAR * usual or left > NEAR * jump:
                continue
            if max(around) <= CALM * usual and not self._said:
                heard = more == 1 or asked.loads[at] != asked.loads[at + 1]
                step = asked.steps[at + 1 - more]
                self._say(trace, held[at : at + 3], step, back / usual, heard)

    def _say(self, trace: _Trace, held: torch.Tensor, step: int, times: float, heard: bool) -> None:
        """`held`: before the load, after it, after the step."""
        self._said = True
        weights = [each() for each in trace.weights]
        living = [each for each in weights if each is not None]
        names = {id(each): name for name, each in self._model.module.named_parameters()}
        parts = held.split([min(NUMBERS, each.numel()) for each in living], dim=1)
        undone = [
            names.get(id(weight), "")
            for weight, part in zip(living, parts, strict=True)
            if float((part[2] - part[0]).norm()) < NEAR * float((part[1] - part[0]).norm())
        ]
        place = place_of_load(living) if heard else ""
        detail: dict[str, Any] = {"parameters": undone, "times": times}
        if place:
            detail["at"] = place
        finding = fault(
            LOAD_UNDONE,
            trace.site or Site("", "", "optimizer", "", 0, None),
            "ERROR" if place else "WARNING",
            len(undone) / max(1, len(living)),
            **detail,
        )
        self._found(step, [finding])


def _ask(trace: _Trace) -> _Asked | None:
    if len({each.shape for each in trace.at}) != 1:
        return None
    begins = trace.count == len(trace.at)  # the first steps are among them
    return _Asked(
        Parcel(torch.stack(list(trace.at))),
        [Parcel(torch.cat(each)) for each in (trace.before if begins else ())],
        list(trace.steps),
        list(trace.loads),
    )


def _begin(held: Watched) -> _Trace:
    """The largest of its weights: those hold most of what was loaded."""
    weights = [each for each in held.parameters if is_readable(each)]
    weights = [each for each in weights if each.device == weights[0].device]
    weights = sorted(weights, key=lambda each: -each.numel())[:MOST_WEIGHTS]
    place = find_call(None, {})
    site = None
    if place.file:
        site = Site("optimizer.step", "", "optimizer", place.file, place.line, None)
    before = list(before_loads(weights)) if weights else []
    return _Trace([weakref.ref(each) for each in weights], before, site=site)
