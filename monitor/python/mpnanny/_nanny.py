"""MixedPrecisionNanny: the front of the monitor. It listens and hands on; figures and decisions are the core's (C++)."""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

import torch
from torch import nn

from . import _process, _taps
from ._console import Console
from ._core import Recorder, unreadable
from ._environment import describe, rank_and_size, run_name
from ._forward import ForwardHooks
from ._layers import Selector, check_selectors, find_modules, find_parameters
from ._step import OpenStep, to_float

PRECISIONS = ("auto", "fp16", "bf16", "fp32", "fp8")
_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Alert:
    """One alert, as `on_alert` gets it. `producer`: True if the value was born here, False if only carried, None unknown."""

    step: int
    phase: str
    layer: str | None
    type: str
    severity: str
    value: float | None
    threshold: float | None
    producer: bool | None
    message: str


def _harmless(method: _F) -> _F:
    """Whatever goes wrong in the monitor stays in the monitor."""

    @functools.wraps(method)
    def guarded(self: MixedPrecisionNanny, *args: Any, **kwargs: Any) -> Any:
        if not self._recording:
            return None
        try:
            return method(self, *args, **kwargs)
        except Exception as error:
            self._trouble(method.__name__, error)
            return None

    return guarded  # type: ignore[return-value]


class Step:
    """The block of one training step: `with nanny.step(n) as s: …; s.log(loss=loss)`."""

    def __init__(self, nanny: MixedPrecisionNanny, number: int) -> None:
        self._nanny = nanny
        self._number = number

    def __enter__(self) -> Step:
        self._nanny._enter_block(self._number)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._nanny._leave_block(kind is not None)

    def log(self, loss: Any = None, lr: Any = None) -> None:
        """The step's loss (without loss scale) and learning rate, as numbers or one-element tensors."""
        self._nanny._log(loss, lr)


class MixedPrecisionNanny:
    """Watches the training of `model` and records it into an SQLite database.

    Only `model` is required: optimizer and scaler are found by their own calls. `trace_interval`: full statistics every so many
    steps. `layers`: names, globs, compiled patterns or module classes to watch; all by default. `precision`: the format that
    values are judged by; "auto" takes the dtype that a tensor has. `on_alert(alert)`: called for each new alert.
    `dense_steps`: full statistics at each of so many steps after an ERROR. Wrong arguments raise here; later nothing does.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer | None = None,
        scaler: Any = None,
        trace_interval: int = 100,
        db: str | os.PathLike[str] = "nanny_logs/metrics.db",
        layers: Selector | Iterable[Selector] | None = None,
        precision: str = "auto",
        on_alert: Callable[[Alert], None] | None = None,
        dense_steps: int = 50,
        quiet: bool = False,
        name: str | None = None,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"model must be a torch.nn.Module, not {type(model).__name__}")
        if precision not in PRECISIONS:
            raise ValueError(f"precision {precision!r} is not one of {', '.join(PRECISIONS)}")
        if trace_interval < 1 or dense_steps < 0:
            raise ValueError("trace_interval must be at least 1, dense_steps at least 0")
        selectors = check_selectors(layers)
        self._recording = False
        self._sampling = False
        self._number = -1
        self._open: OpenStep | None = None
        self._blocks_used = False
        self._optimizer = optimizer
        self._scaler = scaler
        self._scaler_given = scaler is not None
        self._on_alert = on_alert
        self._end_reason = "closed"
        self._notes: list[str] = []
        self._troubles: set[str] = set()
        self._names: dict[int, str] = {}
        self._alert_counts: dict[str, int] = {}
        self._steps_done = 0
        self._offset = 0
        self._console = Console(quiet)
        self._model = model
        self._parameters: list[nn.Parameter] = []
        self._parameter_layers: list[int] = []
        self._parameter_ids: set[int] = set()
        self._forward: ForwardHooks | None = None
        self._core: Any = None
        self._db = ""
        if _process.in_spawned_import():
            return
        try:
            self._start(os.fspath(db), name or run_name(), trace_interval, precision, dense_steps, selectors)
        except Exception as error:
            self._console.warn(f"not watching: {error}")
            self._stop_listening()

    # --- starting and ending ---------------------------------------------------------------------------------------

    def _start(
        self,
        db: str,
        name: str,
        trace_interval: int,
        precision: str,
        dense_steps: int,
        selectors: list[Selector] | None,
    ) -> None:
        rank, world_size = rank_and_size()
        self._db = self._free_path(db, rank, world_size)
        self._core = Recorder(
            self._db, name, rank, world_size, time.time(), precision, trace_interval, describe(), dense_steps
        )
        self._recording = True
        if self._core.note:
            self._note(self._core.note)
        for watched in find_parameters(self._model, selectors):
            layer = self._core.add_layer(
                watched.name, "parameter", watched.source, watched.parameter.numel(), False
            )
            self._names[layer] = watched.name
            self._parameters.append(watched.parameter)
            self._parameter_layers.append(layer)
        self._parameter_ids = {id(p) for p in self._model.parameters()}
        modules = list(find_modules(self._model, selectors))
        self._forward = ForwardHooks(self, modules)
        _taps.add(self)
        _process.add(self)
        leaves = sum(watched.leaf for watched in modules)
        self._console.say(
            f"watching {leaves} modules and {len(self._parameters)} parameters, recording into {self.run}"
        )

    def _free_path(self, db: str, rank: int, world_size: int) -> str:
        """`db`, made different for each rank and for each model that this process watches at once."""
        stem, extension = os.path.splitext(db)
        if world_size > 1:
            stem = f"{stem}.rank{rank}"
        path = stem + extension
        number = 1
        while True:
            users = [
                run
                for run in _process.live_runs()
                if run is not self and os.path.abspath(run._db) == os.path.abspath(path)
            ]
            for run in users:
                if run._model is self._model:  # a notebook cell that ran again
                    run.close()
                    users.remove(run)
            if not users:
                return path
            number += 1
            path = f"{stem}-{number}{extension}"

    @property
    def run(self) -> str:
        """The run's handle, `<path>#<run id>`; "" where nothing is recorded."""
        return f"{self._db}#{self._core.run_id}" if self._core is not None and self._recording else ""

    def close(self, reason: str = "closed") -> None:
        """Ends the run: everything is written, every hook is gone. Again is harmless."""
        if not self._recording:
            return
        handle = self.run
        try:
            self._finish()
            unseen = self._core.unseen()
            if unseen and self._steps_done:
                shown = ", ".join(unseen[:5]) + (" …" if len(unseen) > 5 else "")
                self._notes.append(f"{len(unseen)} watched modules never ran in training: {shown}")
            self._notes.extend(f"not readable: {reason}" for reason in unreadable())
            self._core.set_notes(json.dumps(self._notes))
        except Exception as error:
            self._trouble("close", error)
        self._recording = False
        self._stop_listening()
        try:
            trouble = self._core.close(reason if reason != "closed" else self._end_reason)
        except Exception as error:
            trouble = str(error)
        if trouble:
            self._console.warn(f"the end of the run could not be written: {trouble}")
            return
        counts = ", ".join(f"{n} {severity}" for severity, n in sorted(self._alert_counts.items()))
        following = f"mpnanny {'diagnose' if 'ERROR' in self._alert_counts else 'summary --db'} {handle}"
        self._console.say(f"{self._steps_done} steps recorded, alerts: {counts or 'none'}. Next: {following}")

    def _stop_listening(self) -> None:
        _taps.remove(self)
        _process.remove(self)
        if self._forward is not None:
            self._forward.remove()

    def _abandon(self) -> None:
        """In a forked child: inert, and without a trace of the parent's files."""
        self._recording = False
        if self._forward is not None:
            self._forward.remove()
        if self._core is not None:
            self._core.abandon()

    def _expect_end(self, reason: str) -> None:
        self._end_reason = reason

    @_harmless
    def _flush(self) -> None:
        self._core.flush()

    def __enter__(self) -> MixedPrecisionNanny:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close("closed" if kind is None else "exception")

    def __getstate__(self) -> dict[str, Any]:
        return {}  # a pickled copy, as in a spawned worker, watches nothing

    def __setstate__(self, _state: dict[str, Any]) -> None:
        self._recording = False
        self._core = None

    def __deepcopy__(self, _memo: Any) -> MixedPrecisionNanny:
        copy = type(self).__new__(type(self))
        copy.__setstate__({})
        return copy

    # --- steps -------------------------------------------------------------------------------------------------------

    def step(self, step: int) -> Step:
        """The block of training step `step`. Numbers must grow; where they start again, counting goes on."""
        return Step(self, step)

    @_harmless
    def _enter_block(self, number: int) -> None:
        self._blocks_used = True
        self._finish()
        self._end_reason = "closed"
        self._begin(int(number), explicit=True)

    @_harmless
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

    @_harmless
    def _log(self, loss: Any, lr: Any) -> None:
        if self._open is None:
            return
        if loss is not None:
            self._open.logged_loss = to_float(loss)
            if self._open.logged_loss is None:
                self._note("a loss given to log() is not on the CPU; it is not read, to keep from waiting for the device")
        if lr is not None:
            self._open.logged_lr = to_float(lr)

    @_harmless
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
            self._note("step numbers started again (as with enumerate() in every epoch); they are counted on")
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
            self._raise(Alert(number, phase, name, kind, severity, value, threshold, producer, message))

    def _raise(self, alert: Alert) -> None:
        self._alert_counts[alert.severity] = self._alert_counts.get(alert.severity, 0) + 1
        following = f" Next: mpnanny diagnose {self.run}" if alert.severity == "ERROR" else ""
        self._console.alert(
            f"{alert.severity} {alert.type} at step {alert.step} ({alert.phase}): {alert.message}{following}"
        )
        if self._on_alert is not None:
            self._on_alert(alert)

    # --- what torch says (see _taps) ------------------------------------------------------------------------------

    def _is_ours(self, optimizer: Any) -> bool:
        if self._optimizer is not None:
            return optimizer is self._optimizer
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if id(parameter) in self._parameter_ids:
                    self._optimizer = optimizer
                    return True
        return False

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

    @_harmless
    def heard_scale(self, scaler: Any, outputs: Any, scaled: Any) -> None:
        self._begin_if_needed()
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

    @_harmless
    def heard_backward(self, tensors: Any) -> None:
        self._begin_if_needed()
        step = self._open
        if step is None:
            return
        for tensor in _tensors(tensors):
            if tensor.numel() == 1 and id(tensor) not in step.scaled_ids:
                step.add_loss(to_float(tensor))

    @_harmless
    def heard_unscaled(self, scaler: Any, optimizer: Any) -> None:
        if self._open is not None and self._adopt(scaler) and self._is_ours(optimizer):
            self._open.unscaled = True
            self._read_gradients()

    @_harmless
    def heard_clip(self) -> None:
        self._read_gradients()

    @_harmless
    def heard_scaler_step(self, scaler: Any, optimizer: Any) -> None:
        if self._open is not None and self._adopt(scaler) and self._is_ours(optimizer):
            self._open.uses_scaler = True
            self._open.awaits_update = True
            if self._open.scale is None:
                self._open.scale = self._read_scale(scaler)
            self._read_gradients()

    @_harmless
    def heard_scaler_stepped(self, scaler: Any, optimizer: Any) -> None:
        step = self._open
        if step is None or not self._adopt(scaler) or not self._is_ours(optimizer):
            return
        # A fused optimizer skips inside its own kernel: there only the found-inf of the scaler tells.
        fused = getattr(optimizer, "_step_supports_amp_scaling", False)
        step.skipped = _found_inf(scaler, optimizer) if fused else not step.optimizer_stepped
        step.optimizer_stepped = True

    @_harmless
    def heard_update(self, scaler: Any) -> None:
        if self._open is not None and self._adopt(scaler) and self._open.scale is None:
            self._open.scale = self._read_scale(scaler)

    @_harmless
    def heard_updated(self, scaler: Any) -> None:
        step = self._open
        if step is None or not self._adopt(scaler):
            return
        step.scale_after = self._read_scale(scaler)
        step.awaits_update = False
        self._finish_if_over(step)

    @_harmless
    def heard_optimizer_step(self, optimizer: Any) -> None:
        if self._is_ours(optimizer):
            self._begin_if_needed()
            self._read_gradients()

    @_harmless
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

    # --- trouble -----------------------------------------------------------------------------------------------------

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
            self._core.event(self._number if self._number >= 0 else None, "hook_failed", json.dumps(detail))
            self._note(f"{where} failed in the monitor (training is not touched): {detail['error']}")
        except Exception:
            self._recording = False


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [each for each in value if isinstance(each, torch.Tensor)]
    return []


def _found_inf(scaler: Any, optimizer: Any) -> bool:
    found = scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"].values()
    return any((to_float(tensor) or 0.0) > 0 for tensor in found)


def watch_model(model: nn.Module, **options: Any) -> MixedPrecisionNanny:
    """Watches `model` with nothing else to write: steps are counted by its optimizer. Options as MixedPrecisionNanny."""
    return MixedPrecisionNanny(model, **options)
