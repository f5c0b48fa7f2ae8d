"""A step: when it begins, what ends it, what is told of it; and trouble that stays inside."""

from __future__ import annotations

import functools
import json
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import nn

from . import _process, _taps
from ._alert import Alert
from ._console import Console
from ._course import Course
from ._device import DeviceSteps
from ._dump import Dump
from ._optimizers import Optimizers, Watched
from ._progress import Progress
from ._protocol import Protocol
from ._record import Record
from ._states import OptimizerStates
from ._step import OpenStep, to_float
from ._still import Still
from ._tracing import Tracing

# A step without an optimizer that is known (a hand-written update) ends after so many forward
# passes, one with an optimizer (accumulation) much later: what it has gathered must not grow.
FORWARDS_WITHOUT_OPTIMIZER = 256
FORWARDS_PER_STEP = 8192

if TYPE_CHECKING:
    from ._core import AlertTuple

_F = TypeVar("_F", bound=Callable[..., Any])


def harmless(method: _F) -> _F:
    """Whatever goes wrong in the monitor stays in the monitor."""

    @functools.wraps(method)
    def guarded(self: StepFollower, *args: Any, **kwargs: Any) -> Any:
        if not self._recording:
            return None
        try:
            return method(self, *args, **kwargs)
        except Exception as error:
            self._trouble(method.__name__, error)
            return None

    return guarded  # type: ignore[return-value]


class StepFollower:
    """The part of a nanny that opens and ends steps. Every method that torch or a hook calls is
    harmless to training.
    """

    _recording: bool  # False: before the start, after the end, in a child
    _sampling: bool  # the open step is sampled
    _number: int  # of the newest step
    _open: OpenStep | None
    _core: Any
    _console: Console
    _model: nn.Module
    _optimizers: Optimizers
    _scaler: Any  # of the main optimizer
    _scalers: weakref.WeakSet[Any]  # all of this model
    _watched: Watched
    _trains_in_eval: bool  # a backward pass came out of evaluation mode
    _parameter_ids: set[int]
    _names: dict[int, str]
    _blocks_used: bool
    _end_reason: str
    _notes: list[str]
    _troubles: set[str]
    _course: Course
    _progress: Progress | None
    _steps_done: int
    _offset: int
    _pointed: bool  # the user has been told what to ask
    _on_alert: Callable[[Alert], None] | None
    _tracing: Tracing
    _dump: Dump | None
    _device: DeviceSteps
    _record: Record
    _kinds: int
    _states: OptimizerStates | None
    _still: Still
    _protocol: Protocol
    run: Any

    def _follow_model(self) -> None:
        raise NotImplementedError

    @property
    def _reader(self) -> Any:
        """What the open step's tensors are given to: the core, or what asks a device for it."""
        return self._device if self._device.on else self._core

    def _stop_listening(self) -> None:
        whole: Any = self  # it is a listener and a run where it is both
        _taps.remove(whole)
        _process.remove(whole)

    # --- steps ---

    @harmless
    def _enter_block(self, number: int) -> None:
        self._blocks_used = True
        self._finish()
        self._end_reason = "closed"
        self._begin(int(number), explicit=True)

    @harmless
    def _leave_block(self, failed: bool) -> None:
        if failed:
            self._end_reason = "exception"
        step = self._open
        if step is None:
            return
        step.ended = time.perf_counter()
        self._tracing.leave("block")
        if failed or (step.optimizer_stepped and not step.awaits_update):
            self._finish()
        else:
            # The optimizer may follow outside the block; until then the ring has the step. (Of a
            # device the core is still at an earlier one.)
            if not self._device.on:
                self._core.publish(*self._end_arguments(step))

    @harmless
    def _log(self, loss: Any, lr: Any) -> None:
        if self._open is None:
            return
        if loss is not None:
            self._open.logged_loss = to_float(loss)
            if self._open.logged_loss is None:
                self._note("the loss cannot be read: no single number, or on an unknown device")
        if lr is not None:
            self._open.logged_lr = to_float(lr)

    @harmless
    def _begin_if_needed(self) -> None:
        """Without blocks a step begins when the model, or what follows it, first runs."""
        if self._open is None and not self._blocks_used:
            self._begin(self._number + 1, explicit=False)

    def _count_from(self, step: int) -> None:
        """The next step that is counted has this number, if none has been yet."""
        if self._number < 0:
            self._number = step - 1

    def _trains(self, module: nn.Module) -> bool:
        """False in an evaluation, with gradients on or not."""
        return module.training or self._trains_in_eval

    @harmless
    def _model_runs(self) -> None:
        step = self._open
        if step is not None and step.over:
            self._finish()
        elif step is not None and not step.explicit:
            step.forwards += 1
            known = self._optimizers.main is not None
            if step.forwards >= (FORWARDS_PER_STEP if known else FORWARDS_WITHOUT_OPTIMIZER):
                self._note(f"a step was ended after {step.forwards} forward passes without update")
                self._finish()
        self._begin_if_needed()
        if self._sampling:
            self._protocol.forward(next(self._model.parameters(), None))

    def _begin(self, number: int, explicit: bool) -> None:
        if not self._steps_done:  # the model as it is when the training begins
            self._follow_model()
        failure = self._core.failure()
        if failure:
            self._console.warn(f"recording stopped, training goes on: {failure}")
            self._recording = False
            self._stop_listening()
            return
        if number + self._offset <= self._number:
            self._note("step numbers started again (as in every epoch); they are counted on")
            self._offset = self._number + 1 - number
        self._number = number + self._offset
        self._open = OpenStep(self._number, explicit)
        late = self._device.begin(self._number)
        self._sampling = self._core.begin_step(self._number) if late is None else late
        self._tracing.begin(explicit)
        if self._states is not None:
            self._states.core = self._reader

    def _end_arguments(self, step: OpenStep) -> tuple[Any, ...]:
        peak = None
        if torch.cuda.is_initialized():
            peak = torch.cuda.max_memory_allocated()
        main = self._optimizers.main
        if main is not None and step.lr is None:
            step.lr = to_float(main.param_groups[0].get("lr"))
        return step.end_arguments(peak)

    def _finish(self) -> None:
        step, self._open = self._open, None
        if step is None:
            return
        self._protocol.ended(step)
        if self._sampling:  # what no optimizer holds, or none of those that stepped
            self._still.read(self._watched.without(step.read))
        self._sampling = False
        self._tracing.end(time.perf_counter() - step.started)
        if self._device.on:
            self._device.end(step, self._end_arguments(step))
            self._device.deliver()
            return
        step.settle()
        self._told(step, self._core.end_step(*self._end_arguments(step)))

    def _told(self, step: OpenStep, new: list[AlertTuple]) -> None:
        """The core has ended `step`, of a device some steps late; `new`: the alerts of it."""
        self._steps_done += 1
        self._course.step(step)
        self._tracing.told()
        dumped = self._dump.step_ended(new) if self._dump is not None else {}
        for number, phase, layer, kind, severity, value, threshold, producer, message in new:
            name = None if layer is None else self._names.get(layer)
            if severity == "ERROR":
                self._tracing.raised_error(layer)
            message += dumped.pop(layer, "")
            self._raise(
                Alert(number, phase, name, kind, severity, value, threshold, producer, message)
            )
        if self._progress is not None:
            self._progress.step(self._core.gradients_in_fp16)

    def _finish_last(self) -> None:
        """At the end: a last forward pass without backward was no training, unless it broke."""
        step = self._open
        if step is not None and not step.explicit:
            if not (step.backward_heard or step.uses_scaler or step.explained or step.read):
                self._open = None
        self._finish()

    def _raise(self, alert: Alert) -> None:
        self._course.alert(alert)
        where = f"at step {alert.step} ({alert.phase})"
        following = ""
        if alert.severity == "ERROR" and not self._pointed:
            self._pointed = True  # one pointer is enough
            following = f" Next: mpnanny diagnose {self.run}"
        self._console.alert(f"{alert.severity} {alert.type} {where}: {alert.message}{following}")
        if self._on_alert is not None:
            try:
                self._on_alert(alert)
            except Exception as error:
                self._trouble("on_alert", error)

    # --- trouble ---

    def _note(self, text: str) -> None:
        """Something that could not be watched: said once, and kept with the run."""
        if text in self._notes:
            return
        self._notes.append(text)
        self._console.say(text)
        self._save_notes()

    def _save_notes(self) -> None:
        self._core.set_notes(json.dumps([self._record.text(note) for note in self._notes]))

    def _trouble(self, where: str, error: Exception) -> None:
        if where in self._troubles:
            return
        self._troubles.add(where)
        try:
            detail = {"where": where, "error": self._record.error(error)}
            self._core.event(
                self._number if self._number >= 0 else None, "hook_failed", json.dumps(detail)
            )
            self._note(
                f"{where} failed in the monitor (training is not touched): {detail['error']}"
            )
        except Exception:
            self._recording = False
