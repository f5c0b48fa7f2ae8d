"""Weights that a cast has rounded between two steps of the optimizer (an evaluation or an export
that casts the model that is trained), and with which the training goes on; cast back or not.

What shows it are a few numbers of the weights after a step and before the next one: the later ones
are the earlier ones, rounded to a 16-bit format, to the last of them. A model that was cast and got
its own weights back shows nothing.

And buffers that a cast of their module has rounded, and that are in FP32 again when the model next
trains: tables and running statistics, which no weight's numbers show.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from ..fp64.findings import PROVEN, RECAST, Finding
from ..fp64.places import Site
from ..model import casts
from ..model.samples import is_readable, may_read, row
from ..model.watched import WatchedModel
from ..operators.modes import others_on
from ..operators.source_casts import cast_near
from ..steps.listeners import StepListener
from ..steps.step import OpenStep
from .watcher import Found, fault

MOST_SHARE = 1 / 3  # of the steps: what is rounded all the time is kept in that format
LEAST = 8  # numbers of a weight that the cast has changed
FORMATS = ("bfloat16", "float16")
COLUMNS = len(FORMATS)  # of flags(), for each weight


def flags(ended: torch.Tensor, now: torch.Tensor, sizes: Sequence[int]) -> list[torch.Tensor]:
    """Rows of weights after a step and before the next one, `sizes` numbers of each weight: for
    each weight and format how many numbers were rounded to it, 0 unless all that differ were.
    float32, a column each, on their device.
    """
    found = []
    for after, later in zip(ended.split(sizes, dim=1), now.split(sizes, dim=1), strict=True):
        changed = (after != later).sum(dim=1, dtype=torch.float32)
        for name in FORMATS:
            rounded = after.to(getattr(torch, name)).to(after.dtype)
            found.append(changed * (rounded == later).all(dim=1))
    return found


class Recast:
    """Of one optimizer, whose `weights` these are."""

    def __init__(self, found: Found) -> None:
        self._found = found
        self._said = False

    def look(
        self,
        figures: torch.Tensor,
        steps: Sequence[int],
        places: Sequence[str],
        weights: Sequence[weakref.ref[torch.Tensor]],
        step_place: str,
    ) -> None:
        """`figures`: flags() before each of `steps`; `places`: where a module was cast then."""
        if self._said:
            return
        for at, name in enumerate(FORMATS):
            columns = figures[:, at::COLUMNS]
            hits = [row for row, each in enumerate(columns) if bool((each >= LEAST).any())]
            if hits and len(hits) <= max(1, MOST_SHARE * len(steps)):
                cast = columns[hits[0]] >= LEAST
                living = [each() for each, hit in zip(weights, cast.tolist(), strict=True) if hit]
                self._say(name, [steps[row] for row in hits], places[hits[0]], living, step_place)
                return

    def _say(
        self,
        dtype: str,
        steps: list[int],
        place: str,
        weights: Sequence[torch.Tensor | None],
        step_place: str,
    ) -> None:
        self._said = True
        still = any(each is not None and str(each.dtype)[6:] == dtype for each in weights)
        file, _, line = (place or cast_near(step_place, dtype)).rpartition(":")
        names = casts.names_of([each for each in weights if each is not None])
        finding = fault(
            RECAST,
            Site("to", "", "state", file, int(line or 0), None),
            "ERROR" if still else "WARNING",
            1.0,
            parameters=names,
            count=len(steps),
            since=steps[0],
        )
        finding.dtype = dtype
        finding.precision = PROVEN
        finding.reach["state", "weights"] = 2.0**-9 if dtype == "bfloat16" else 2.0**-12
        self._found(steps[0], [finding])


class RecastBuffers(StepListener):
    """`found(step, findings)` takes what there is to say. Looked at when the model is about to run
    in training and a module was cast since it did so last.
    """

    name = "buffers that a cast has rounded"

    def __init__(self, model: WatchedModel, found: Found) -> None:
        self._model = model
        self._found = found
        self._casts = 0  # that were looked at
        self._number = 0

    def step_begins(self, step: OpenStep) -> None:
        self._number = step.number

    def model_runs(self, model: nn.Module, args: Any, kwargs: Any) -> None:
        if self._casts == casts.count() or others_on() or not may_read():
            return
        self._casts = casts.count()
        rounded: dict[str, str] = {}  # by the buffer's name the place of its cast
        dtype = ""
        with torch.no_grad():
            names = {id(each): name for name, each in self._model.module.named_modules()}
            for cast in casts.of_buffers(self._model.module.modules()):
                module = cast.module()
                now = dict(module.named_buffers()) if module is not None else {}
                if any(name in now and now[name].dtype is to for name, (_, to) in _all(cast)):
                    continue  # it is still cast
                cast.judged = True
                path = names.get(id(module), "")
                for name, (before, to) in _all(cast):
                    if name in now and _was_rounded(now[name], before, to):
                        rounded[f"{path}.{name}" if path else name] = cast.place
                        dtype = str(to)[6:]
        if rounded:
            self._found(max(self._number, 0), [_of_buffers(rounded, dtype)])


def _all(cast: casts.Cast) -> list[tuple[str, tuple[torch.Tensor, torch.dtype]]]:
    return list(cast.buffers.items())


def _was_rounded(now: torch.Tensor, before: torch.Tensor, to: torch.dtype) -> bool:
    if now.dtype is not torch.float32 or not is_readable(now):
        return False
    numbers = row(now, casts.NUMBERS)
    if numbers.shape != before.shape or numbers.device != before.device:
        return False
    return not torch.equal(numbers, before) and torch.equal(numbers, before.to(to).float())


def _of_buffers(rounded: dict[str, str], dtype: str) -> Finding:
    file, _, line = next(iter(rounded.values())).rpartition(":")
    finding = fault(
        RECAST,
        Site("to", "", "state", file, int(line or 0), None),
        "WARNING",
        1.0,
        parameters=list(rounded)[:16],
        count=1,
        what="buffers",
    )
    finding.dtype = dtype
    finding.precision = PROVEN
    finding.reach["state", "buffers"] = 2.0**-9 if dtype == "bfloat16" else 2.0**-12
    return finding
