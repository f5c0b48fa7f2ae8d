"""How the training is made: which optimizer, scaler and clipping it calls, in which order, and what
it loads. Each fact is an event of its own when it is first met, so that a diagnosis can tell a
wrong order of calls from wrong numbers. Names and numbers of torch's own objects, nothing else.
"""

from __future__ import annotations

import contextlib
import json
import math
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from .._core import nonfinite
from ..base.record import Record
from ..fp64.places import find_call, lines_of_program
from ..model import checkpoints
from ..model.optimizers import ids_of, parameters_of
from ..model.selection import Watched
from ..model.watched import WatchedModel
from .listeners import StepListener
from .state import RunState
from .step import OpenStep, to_float

MAX_EVENTS = 64  # a run that changes its ways at every step must not fill the file
_SETTINGS = ("lr", "eps", "weight_decay", "momentum")


class CallOrder(StepListener):
    """Writes through `event(step, type, detail)` of the core. Nothing here touches the training."""

    name = "the order of calls"

    def __init__(
        self,
        state: RunState,
        model: WatchedModel,
        record: Record,
        event: Callable[[int | None, str, str | None], None],
    ) -> None:
        self._state = state
        self._model = model
        self._record = record
        self._event = event
        self._said: set[tuple[Any, ...]] = set()
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._scalers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._stepped: weakref.WeakSet[Any] = weakref.WeakSet()
        self._count = 0
        self._phases = 0
        self._newest: weakref.ref[Any] | None = None  # the optimizer that stepped last
        self._loads = 0  # so far, then
        self._dtype = ""  # of what it holds
        self._left_count = self._left_first = 0  # of steps that the loop left

    def _say(self, key: tuple[Any, ...], **detail: Any) -> None:
        """`key` begins with the event's type; the same key is said once."""
        if key in self._said or len(self._said) >= MAX_EVENTS:
            return
        self._said.add(key)
        number = self._state.number if self._state.number >= 0 else None
        self._event(number, key[0], json.dumps(detail))

    def _say_call(self, key: tuple[Any, ...], **detail: Any) -> None:
        """With the lines of the program that make the call, nearest first."""
        if key in self._said or len(self._said) >= MAX_EVENTS:
            return  # before the stack is looked through
        place = find_call(None, {})
        lines = ((place.file, place.line), *place.callers) if place.file else ()
        detail["called_from"] = [self._record.source(each) for each in lines_of_program(lines)]
        self._say(key, **detail)

    def optimizer_begins(
        self, step: OpenStep, optimizer: Any, held: Watched, closure: bool
    ) -> None:
        self._describe(optimizer)
        self._phase(optimizer)
        if step.uses_scaler and not step.awaits_update:  # outside of scaler.step()
            unscaled = id(optimizer) in step.unscaled
            self._say_call(
                ("direct_step", unscaled),
                unscaled=unscaled,
                scale=_number(step.scale_now),
            )

    def _describe(self, optimizer: Any) -> None:
        if optimizer in self._optimizers:
            return
        self._optimizers.add(optimizer)
        self._count += 1
        group = optimizer.param_groups[0]
        kind = type(optimizer)
        detail: dict[str, Any] = {
            name: _number(group.get(name)) for name in _SETTINGS if name in group
        }
        betas = group.get("betas")
        if isinstance(betas, (tuple, list)):
            detail["betas"] = [_number(beta) for beta in betas]
        self._say(
            ("optimizer", self._count),
            kind=kind.__name__ if kind.__module__.startswith("torch.") else "other",
            index=self._count,
            parameters=sum(len(each["params"]) for each in optimizer.param_groups),
            with_state=sum(1 for state in optimizer.state.values() if state),
            **detail,
        )

    def _phase(self, optimizer: Any) -> None:
        """Where another optimizer takes over from the one that has stepped until then: what was
        loaded in between (nothing: a phase of the same training, no resumption), and what it holds.
        """
        before = None if self._newest is None else self._newest()
        if self._newest is None or before is not optimizer:
            dtypes = {str(each.dtype)[6:] for each in parameters_of(optimizer)}
            dtype = dtypes.pop() if len(dtypes) == 1 else ""
            taken_over = self._newest is not None and optimizer not in self._stepped
            if taken_over and (before is None or ids_of(before) & ids_of(optimizer)):
                self._phases += 1
                self._say(
                    ("phase", self._phases),
                    index=self._count,
                    loads=checkpoints.loads() - self._loads,
                    dtype=dtype,
                    dtype_before=self._dtype,
                )
            self._newest, self._dtype = weakref.ref(optimizer), dtype
            self._stepped.add(optimizer)
        self._loads = checkpoints.loads()

    def scaler_used(self, step: OpenStep, scaler: Any) -> None:
        if scaler in self._scalers:
            return
        self._scalers.add(scaler)
        self._say(
            ("scaler", len(self._scalers), self._state.number),
            scale=_number(getattr(scaler, "_scale", None))
            or _number(getattr(scaler, "_init_scale", None)),
            growth_interval=_number(scaler.get_growth_interval()),
            growth_factor=_number(scaler.get_growth_factor()),
            backoff_factor=_number(scaler.get_backoff_factor()),
        )

    def model_runs(self, model: nn.Module, args: Any, kwargs: Any) -> None:
        if not self._state.sampling:
            return
        parameter = next(model.parameters(), None)
        device = "cpu" if parameter is None else parameter.device.type
        with contextlib.suppress(TypeError, AttributeError):  # before torch 2.4
            if torch.is_autocast_enabled(device):
                dtype = str(torch.get_autocast_dtype(device))[6:]
                self._say(("autocast", dtype), dtype=dtype)

    def gradients_unscaled(self, step: OpenStep, scaler: Any, optimizer: Any) -> None:
        self._say(("unscale",))

    def gradients_clipped(
        self, step: OpenStep, parameters: Any, max_norm: Any, total_norm: Any
    ) -> None:
        scaled = step.uses_scaler and not step.unscaled
        norm = _number(total_norm)
        dtype = str(getattr(total_norm, "dtype", "torch."))[6:]
        finite = None if norm is None else math.isfinite(norm)
        say = self._say_call if scaled else self._say
        say(
            ("clip", scaled, finite, dtype),
            scaled=scaled,
            max_norm=_number(max_norm),
            norm=_as_json(norm),
            norm_dtype=dtype,
        )

    def state_loaded(self, what: str) -> None:
        within = self._state.steps_done > 0  # a run that trains
        self._say(("loaded", what, self._state.number), what=what, within=within)

    def backward_ended(self, step: OpenStep) -> None:
        """In sampled steps: what is not finite now may be replaced before it is used."""
        if self._state.sampling and not self._state.on_device:
            gradients = [parameter.grad for parameter in self._model.parameters.parameters]
            step.bad_gradients = bool(nonfinite(gradients))

    def gradients_read(self, step: OpenStep, bad: bool) -> None:
        if step.bad_gradients and not bad:
            self._say(("gradients_replaced",))

    def step_ends(self, step: OpenStep) -> None:
        if step.awaits_update:
            self._say(("update_missing",))
        if step.left:
            self._tell_left(step)
        if step.backwards > 1:
            detail: dict[str, Any] = {"backwards": step.backwards, "dtype": step.added_in}
            if step.taken_out:  # of .grad, in between
                detail["taken_out"] = True
            if step.losses.factor != 1.0:  # the sum of the passes' losses is so many times the mean
                detail["sum_of_losses"] = step.losses.factor
            self._say(("accumulation", step.backwards, step.taken_out), **detail)

    def _tell_left(self, step: OpenStep) -> None:
        """The first, the second, the fourth …: a loop may leave every other one."""
        self._left_first = step.number if self._left_count == 0 else self._left_first
        self._left_count += 1
        if self._left_count & (self._left_count - 1) == 0:
            self._say_left()

    def _say_left(self) -> None:
        self._say(("step_left", self._left_count), count=self._left_count, first=self._left_first)

    def run_ends(self) -> None:
        if self._left_count:
            self._say_left()


def _number(value: Any) -> float | None:
    """None for what is no number or would make the host wait for a device."""
    number = None if value is None else to_float(value)
    return number if isinstance(number, float) else None


def _as_json(number: float | None) -> float | str | None:
    return number if number is None or math.isfinite(number) else str(number)
