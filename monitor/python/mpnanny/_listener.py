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
from ._step import OpenStep, to_float

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
    _optimizer: Any
    _scaler: Any
    _parameters: list[nn.Parameter]
    _parameter_layers: list[int]
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
        if self._optimizer is not None and step.lr is None:
            step.lr = to_float(self._optimizer.param_groups[0].get("lr"))
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

    def _is_ours(self, optimizer: Any) -> bool:
        if self._optimizer is not None:
            return optimizer is self._optimizer
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if id(parameter) in self._parameter_ids:
                    self._optimizer = optimizer
                    return True
        return False

    def _begin_if_ours(self, losses: Any) -> None:
        """A compiled model's forward pass is not heard; its loss is, and so is that of others."""
        if self._open is None and not self._blocks_used:
            if any(_reaches(loss, self._parameter_ids) for loss in _tensors(losses)):
                self._begin_if_needed()

    def _inverse_scale(self) -> float:
        """What gradients must be multiplied by at this moment."""
        step = self._open
        if step is None or not step.uses_scaler or step.unscaled or not step.scale:
            return 1.0
        return 1.0 / step.scale

    def _read_scale(self, scaler: Any) -> float | None:
        scale = getattr(scaler, "_scale", None)
        if scale is None:
            return float(getattr(scaler, "_init_scale", 0)) or None
        return to_float(scale)

    def _adopt(self, scaler: Any) -> bool:
        if self._scaler is None and scaler.is_enabled():
            self._scaler = scaler
        return scaler is self._scaler and scaler.is_enabled()

    @harmless
    def heard_scale(self, scaler: Any, outputs: Any, scaled: Any) -> None:
        self._begin_if_ours(outputs)
        step = self._open
        if step is None or not self._adopt(scaler):
            return
        step.uses_scaler = True
        if step.scale is None:
            step.scale = self._read_scale(scaler)
            step.growth_interval = int(scaler.get_growth_interval())
        for before, after in zip(_tensors(outputs), _tensors(scaled), strict=False):
            if before.numel() == 1:
                step.add_loss(to_float(before))
                step.scaled_ids.add(id(after))

    @harmless
    def heard_backward(self, tensors: Any) -> None:
        self._begin_if_ours(tensors)
        step = self._open
        if step is None:
            return
        for tensor in _tensors(tensors):
            if tensor.numel() == 1 and id(tensor) not in step.scaled_ids:
                step.add_loss(to_float(tensor))

    @harmless
    def heard_unscaled(self, scaler: Any, optimizer: Any) -> None:
        if self._open is not None and self._adopt(scaler) and self._is_ours(optimizer):
            self._open.unscaled = True
            self._read_gradients()

    @harmless
    def heard_clip(self, parameters: Any) -> None:
        # A generator must not be consumed here; clip_grad_norm_ itself makes a list of it before.
        if any(id(parameter) in self._parameter_ids for parameter in _tensors(parameters)):
            self._read_gradients()

    @harmless
    def heard_scaler_step(self, scaler: Any, optimizer: Any) -> None:
        if self._open is not None and self._adopt(scaler) and self._is_ours(optimizer):
            self._open.uses_scaler = True
            self._open.awaits_update = True
            if self._open.scale is None:
                self._open.scale = self._read_scale(scaler)
            self._read_gradients()

    @harmless
    def heard_scaler_stepped(self, scaler: Any, optimizer: Any) -> None:
        step = self._open
        if step is None or not self._adopt(scaler) or not self._is_ours(optimizer):
            return
        # A fused optimizer skips inside its own kernel: there only the found-inf of the scaler
        # tells.
        fused = getattr(optimizer, "_step_supports_amp_scaling", False)
        step.skipped = _found_inf(scaler, optimizer) if fused else not step.optimizer_stepped
        step.optimizer_stepped = True

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
    def heard_optimizer_step(self, optimizer: Any) -> None:
        if self._is_ours(optimizer):
            self._begin_if_needed()
            self._read_gradients()

    @harmless
    def heard_optimizer_stepped(self, optimizer: Any) -> None:
        step = self._open
        if step is None or not self._is_ours(optimizer):
            return
        step.optimizer_stepped = True
        if not step.awaits_update:
            self._finish_if_over(step)

    def _finish_if_over(self, step: OpenStep) -> None:
        if not step.optimizer_stepped:
            return
        if not step.explicit or step.ended is not None:
            self._finish()

    def _read_gradients(self) -> None:
        step = self._open
        if step is None or step.gradients_read:
            return
        step.gradients_read = True
        gradients = [parameter.grad for parameter in self._parameters]
        self._core.gradients(self._parameter_layers, gradients, self._inverse_scale())
        if self._sampling:
            self._core.weights(self._parameter_layers, self._parameters)

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


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [each for each in value if isinstance(each, torch.Tensor)]
    return []


def _reaches(loss: torch.Tensor, parameters: set[int], limit: int = 1000) -> bool:
    """Whether one of `parameters` is among the first `limit` nodes of the loss's graph."""
    nodes, seen = [loss.grad_fn], set()
    while nodes and len(seen) < limit:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if id(getattr(node, "variable", None)) in parameters:
            return True
        nodes.extend(following for following, _ in node.next_functions)
    return False


def _found_inf(scaler: Any, optimizer: Any) -> bool:
    found = scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"].values()
    return any((to_float(tensor) or 0.0) > 0 for tensor in found)
