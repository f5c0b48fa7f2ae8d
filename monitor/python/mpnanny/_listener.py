"""Follows one training through what torch says (see _taps): when a step begins and ends, what it
holds.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import nn

from . import _process, _taps
from ._console import Console
from ._optimizers import Optimizers, Watched
from ._reading import found_inf, reaches, tensors
from ._step import OpenStep, to_float

# A step without an optimizer that is known (a hand-written update) ends after so many forward
# passes, one with an optimizer (accumulation) much later: what it has gathered must not grow.
FORWARDS_WITHOUT_OPTIMIZER = 256
FORWARDS_PER_STEP = 8192

_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Alert:
    """One alert, as `on_alert` gets it. `producer`: True if the value was born here, False if only
    carried, None unknown.
    """

    step: int
    phase: str
    layer: str | None
    type: str
    severity: str
    value: float | None
    threshold: float | None
    producer: bool | None
    message: str


def harmless(method: _F) -> _F:
    """Whatever goes wrong in the monitor stays in the monitor."""

    @functools.wraps(method)
    def guarded(self: TrainingListener, *args: Any, **kwargs: Any) -> Any:
        if not self._recording:
            return None
        try:
            return method(self, *args, **kwargs)
        except Exception as error:
            self._trouble(method.__name__, error)
            return None

    return guarded  # type: ignore[return-value]


class TrainingListener:
    """The part of a nanny that hears. Every method that torch or a hook calls is harmless to
    training.
    """

    _recording: bool  # False: before the start, after the end, in a child
    _sampling: bool  # the open step is sampled
    _number: int  # of the newest step
    _open: OpenStep | None
    _core: Any
    _console: Console
    _model: nn.Module
    _optimizers: Optimizers
    _scaler: Any
    _watched: Watched
    _trains_in_eval: bool  # a backward pass came out of evaluation mode
    _parameter_ids: set[int]
    _names: dict[int, str]
    _blocks_used: bool
    _end_reason: str
    _notes: list[str]
    _troubles: set[str]
    _alert_counts: dict[str, int]
    _steps_done: int
    _offset: int
    _pointed: bool  # the user has been told what to ask
    _on_alert: Callable[[Alert], None] | None
    run: Any

    def _stop_listening(self) -> None:
        _taps.remove(self)
        _process.remove(self)

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
        if failed or (step.optimizer_stepped and not step.awaits_update):
            self._finish()
        else:
            # The optimizer may follow outside the block; until then the ring has the step.
            self._core.publish(*self._end_arguments(step))

    @harmless
    def _log(self, loss: Any, lr: Any) -> None:
        if self._open is None:
            return
        if loss is not None:
            self._open.logged_loss = to_float(loss)
            if self._open.logged_loss is None:
                self._note("a loss on a device is not read yet, to keep training from waiting")
        if lr is not None:
            self._open.logged_lr = to_float(lr)

    @harmless
    def _begin_if_needed(self) -> None:
        """Without blocks a step begins when the model, or what follows it, first runs."""
        if self._open is None and not self._blocks_used:
            self._begin(self._number + 1, explicit=False)

    def _trains(self, module: nn.Module) -> bool:
        """False in an evaluation, with gradients on or not."""
        return module.training or self._trains_in_eval

    @harmless
    def _model_runs(self) -> None:
        step = self._open
        if step is not None and not step.explicit:
            step.forwards += 1
            known = self._optimizers.main is not None
            if step.forwards >= (FORWARDS_PER_STEP if known else FORWARDS_WITHOUT_OPTIMIZER):
                self._note(f"a step was ended after {step.forwards} forward passes without update")
                self._finish()
        self._begin_if_needed()

    def _begin(self, number: int, explicit: bool) -> None:
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
        self._sampling = self._core.begin_step(self._number)

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
        self._sampling = False
        new = self._core.end_step(*self._end_arguments(step))
        self._steps_done += 1
        for number, phase, layer, kind, severity, value, threshold, producer, message in new:
            name = None if layer is None else self._names.get(layer)
            self._raise(
                Alert(number, phase, name, kind, severity, value, threshold, producer, message)
            )

    def _finish_last(self) -> None:
        """At the end: a last forward pass without backward was no training, unless it broke."""
        step = self._open
        if step is not None and not step.explicit:
            if not (step.backward_heard or step.uses_scaler or step.explained or step.read):
                self._open = None
        self._finish()

    def _raise(self, alert: Alert) -> None:
        self._alert_counts[alert.severity] = self._alert_counts.get(alert.severity, 0) + 1
        where = f"at step {alert.step} ({alert.phase})"
        following = ""
        if alert.severity == "ERROR" and not self._pointed:
            self._pointed = True  # one pointer is enough
            following = f" Next: mpnanny diagnose {self.run}"
        self._console.alert(f"{alert.severity} {alert.type} {where}: {alert.message}{following}")
        if self._on_alert is not None:
            self._on_alert(alert)

    # --- what torch says (see _taps)
    # ------------------------------------------------------------------------------

    def _begin_if_ours(self, losses: Any) -> None:
        """A compiled model's forward pass is not heard; its loss is, and so is that of others."""
        if self._open is None and not self._blocks_used:
            if any(reaches(loss, self._parameter_ids) for loss in tensors(losses)):
                self._trains_in_eval = not self._model.training
                self._begin_if_needed()

    def _inverse_scale(self) -> float:
        """What gradients that nobody has unscaled must be multiplied by at this moment."""
        step = self._open
        if step is None or not step.uses_scaler or not step.scale_now:
            return 1.0
        return 1.0 / step.scale_now

    def _read_scale(self, scaler: Any) -> float | None:
        scale = getattr(scaler, "_scale", None)
        if scale is None:
            return float(getattr(scaler, "_init_scale", 0)) or None
        return to_float(scale)

    def _adopt(self, scaler: Any) -> bool:
        if self._scaler is None and scaler.is_enabled():
            self._scaler = scaler
        return scaler is self._scaler and scaler.is_enabled()

    def _use_scaler(self, step: OpenStep, scaler: Any) -> None:
        step.uses_scaler = True
        step.scale_now = self._read_scale(scaler)
        if step.scale is None:
            step.scale = step.scale_now
            step.growth_interval = int(scaler.get_growth_interval())

    @harmless
    def heard_scale(self, scaler: Any, outputs: Any, scaled: Any) -> None:
        self._begin_if_ours(outputs)
        step = self._open
        if step is None or not self._adopt(scaler):
            return
        self._use_scaler(step, scaler)
        for loss in tensors(outputs):
            if loss.numel() == 1:
                step.loss_from_scaler = True
                step.add_loss(to_float(loss))

    @harmless
    def heard_backward(self, losses: Any) -> None:
        self._begin_if_ours(losses)
        step = self._open
        if step is None:
            return
        step.backward_heard = True
        if step.loss_from_scaler or (step.in_closure and step.closure_heard):
            return
        step.closure_heard = step.in_closure
        for loss in tensors(losses):
            if loss.numel() == 1:
                step.add_loss(to_float(loss))

    @harmless
    def heard_unscaled(self, scaler: Any, optimizer: Any) -> None:
        if self._open is not None and self._adopt(scaler):
            self._read_gradients(self._optimizers.held(optimizer), 1.0)

    @harmless
    def heard_clip(self, parameters: Any) -> None:
        # A generator must not be consumed here; clip_grad_norm_ itself makes a list of it before.
        # What was unscaled has been read by then, so the rest is still scaled.
        step = self._open
        if step is None or self._watched.ids <= step.read:
            return
        clipped = self._watched.among(map(id, tensors(parameters)))
        self._read_gradients(clipped, self._inverse_scale())

    @harmless
    def heard_scaler_step(self, scaler: Any, optimizer: Any) -> None:
        if self._open is None or not self._adopt(scaler):
            return
        held = self._optimizers.held(optimizer)
        if held is not None:
            self._open.awaits_update = True
            self._use_scaler(self._open, scaler)
            self._read_gradients(held, self._inverse_scale())

    @harmless
    def heard_scaler_stepped(self, scaler: Any, optimizer: Any) -> None:
        step = self._open
        if step is None or not self._adopt(scaler) or self._optimizers.held(optimizer) is None:
            return
        # A fused optimizer skips inside its own kernel: there only the found-inf of the scaler
        # tells.
        fused = getattr(optimizer, "_step_supports_amp_scaling", False)
        skipped = found_inf(scaler, optimizer) if fused else id(optimizer) not in step.stepped
        step.skipped = step.skipped or skipped
        if skipped and not fused and self._optimizers.count_step(optimizer):
            self._main_stepped(step, optimizer)

    @harmless
    def heard_update(self, scaler: Any) -> None:
        if self._open is not None and self._adopt(scaler) and self._open.scale is None:
            self._open.scale = self._read_scale(scaler)

    @harmless
    def heard_updated(self, scaler: Any) -> None:
        step = self._open
        if step is None or not self._adopt(scaler):
            return
        step.scale_after = self._read_scale(scaler)
        step.awaits_update = False
        self._finish_if_over(step)

    @harmless
    def heard_optimizer_step(self, optimizer: Any, closure: bool) -> None:
        held = self._optimizers.held(optimizer)
        if held is None:
            return
        if optimizer is self._optimizers.main:
            self._begin_if_needed()
        if self._open is None:
            return
        self._open.in_closure, self._open.closure_heard = closure, False
        if not closure:  # else the closure makes the gradients
            # Had its scaler stepped it, they would be read: they are applied as they are.
            self._read_gradients(held, 1.0)

    @harmless
    def heard_optimizer_stepped(self, optimizer: Any) -> None:
        step = self._open
        held = self._optimizers.held(optimizer)
        if step is None or held is None:
            return
        if step.in_closure:
            step.in_closure = False
            self._read_gradients(held, 1.0)
        step.stepped.add(id(optimizer))
        if self._optimizers.count_step(optimizer):
            self._main_stepped(step, optimizer)
            if not step.awaits_update:
                self._finish_if_over(step)

    def _main_stepped(self, step: OpenStep, optimizer: Any) -> None:
        step.optimizer_stepped = True
        step.lr = to_float(optimizer.param_groups[0].get("lr"))  # before a scheduler changes it

    def _finish_if_over(self, step: OpenStep) -> None:
        if not step.optimizer_stepped:
            return
        if not step.explicit:
            if not step.uses_scaler:  # optimizers that step after the main one
                for held in self._optimizers.others():
                    self._read_gradients(held, 1.0)
            self._finish()
        elif step.ended is not None:
            self._finish()

    def _read_gradients(self, held: Watched | None, factor: float) -> None:
        """Each once a step, at the first moment that shows them whole and not yet clipped."""
        step = self._open
        if step is None or held is None or held.ids <= step.read:
            return
        if step.read:
            held = held.without(step.read)
        if self._sampling:
            self._core.weights(held.layers, held.parameters)
        gradients = [parameter.grad for parameter in held.parameters]
        self._core.gradients(held.layers, gradients, factor)
        step.read |= held.ids

    # --- trouble ---

    def _note(self, text: str) -> None:
        """Something that could not be watched: said once, and kept with the run."""
        if text in self._notes:
            return
        self._notes.append(text)
        self._console.say(text)
        self._core.set_notes(json.dumps(self._notes))

    def _trouble(self, where: str, error: Exception) -> None:
        if where in self._troubles:
            return
        self._troubles.add(where)
        try:
            detail = {"where": where, "error": f"{type(error).__name__}: {error}"}
            self._core.event(
                self._number if self._number >= 0 else None, "hook_failed", json.dumps(detail)
            )
            self._note(
                f"{where} failed in the monitor (training is not touched): {detail['error']}"
            )
        except Exception:
            self._recording = False
