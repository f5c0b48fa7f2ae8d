"""PrecisionGuard: keeps a training under autocast alive by changing it, as little as it can."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn

from ..model.optimizers import parameters_of
from ..precision.keep_fp32 import keep_fp32
from .judgement import LARGEST, overflowing, overflowing_gradients
from .readings import Look, Reading
from .undo import Buffers, Snapshot, all_finite

# What a layer's values have to fall below before it goes back, as a multiple of `near`.
_CALM = 16.0
_FIRST_LOOKS = 3  # steps at the start that are looked at one after the other
_SKIPS_SHOWN = 3
# Steps that are looked at after one that failed unseen; twice as many each time, to catch its like.
_LOOKS_AFTER = 2
_MOST_LOOKS = 400
_ALERTS = frozenset({"NAN", "INF", "OVERFLOW", "SATURATION", "SHADOW_RANGE", "SHADOW_UNDEFINED"})


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that the guard has done. `kind`: fp32 (a module leaves the 16-bit format), low (it
    goes back), skipped (a step), scale (of the loss), buffers (put back), rolled_back, limit
    (nothing more is done). `module`: its name; `value`: the new scale, or the step rolled back to.
    """

    step: int
    kind: str
    reason: str
    module: str | None = None
    value: float | None = None


@dataclass(slots=True)
class _Island:
    since: int
    calm_since: int | None = None
    calm_steps: int = 0
    returns: bool = True  # whether it may go back at all


class PrecisionGuard:
    """**Changes the training**, which nothing else in mpnanny does. Under autocast it puts a module
    whose values come near the end of the 16-bit format, or become Inf or NaN in it, into FP32 from
    the next step on (and back, once its values have been small for long). Without a GradScaler it
    leaves out steps whose gradients are not finite; it sets a fallen loss scale back once the cause
    is in FP32; it puts spoiled buffers back and, with `snapshot_every`, the whole state. With
    nothing to do the training is bit for bit what it is without it.

        guard = mpnanny.PrecisionGuard(model, optimizer, scaler)
        for batch in loader:
            with guard.step():
                ...  # zero_grad, forward under autocast, backward, optimizer step

    `every`: steps between two looks at all modules (a look costs about one forward pass more).
    `near`: how many times below the format's end values have to stay. `calm_steps`: for how long a
    module's values have to be small before it goes back; twice as long each time again.
    `most_modules`: share of the modules that may be in FP32; `most_changes`: of modules, in all.
    `snapshot_every`: keep parameters and optimizer state every so many steps and put them back
    when parameters are no longer finite; 0: never. `nanny`: whose run records each change as an
    event; give `guard.alert` as its `on_alert` and layers that an ERROR names go into FP32 too.
    `on_change(change)`: called for each. Raises TypeError for what it cannot guard: compiled
    models, weights kept in 16 bits, more than one process.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        scaler: Any = None,
        *,
        nanny: Any = None,
        every: int = 50,
        near: float = 4.0,
        calm_steps: int = 1000,
        most_modules: float = 0.25,
        most_changes: int = 100,
        snapshot_every: int = 0,
        on_change: Callable[[Change], None] | None = None,
        quiet: bool = False,
    ) -> None:
        _refuse(model)
        if every < 1 or near < 1 or calm_steps < 1 or not 0 <= most_modules <= 1:
            raise TypeError("every, near and calm_steps are at least 1, most_modules is a share")
        self._model = model
        self._optimizer = optimizer
        self._scaler = scaler if scaler is not None and scaler.is_enabled() else None
        self.nanny = nanny
        self._every = every
        self._near = near
        self._calm_steps = calm_steps
        modules = sum(1 for _ in model.modules())
        self._most_islands = max(1, int(most_modules * modules))
        self._most_changes = most_changes
        self._snapshot_every = snapshot_every
        self._on_change = on_change
        self._quiet = quiet
        self._islands: dict[str, _Island] = {}
        self._dtype: torch.dtype | None = None
        self._undo: Callable[[], None] = lambda: None
        self._snapshot: Snapshot | None = None
        self._buffers = Buffers(model)
        self._step = 0
        self._looks_left = _FIRST_LOOKS
        self._skipped = False
        self._good_scale: float | None = None
        self._named: dict[str, str] = {}
        self._unseen = 1
        self._changed_modules = 0
        self._at_limit = False
        self.changes: list[Change] = []
        first = next(model.parameters(), None)
        self._device_type = "cpu" if first is None else first.device.type
        optimizer.register_step_pre_hook(self._before_optimizer)

    @property
    def islands(self) -> list[str]:
        """Names of the modules that are in FP32 now."""
        return list(self._islands)

    @contextmanager
    def step(self) -> Iterator[None]:
        """Around one training step: forward passes, backward passes, the optimizer's step."""
        looks = self._looks_left > 0 or self._step % self._every == 0
        self._skipped = False
        self._buffers.keep()
        before = self._scale()
        look = Look(self._model, self._device_type) if looks else None
        try:
            yield
        finally:
            readings = look.end() if look is not None else []
        if look is not None and look.autocast in LARGEST:
            self._dtype = look.autocast
        after = self._scale()
        bad = self._skipped or (before is not None and after is not None and after < before)
        self._after(readings, looks, bad)
        if not bad:
            self._good_scale = before
        self._step += 1

    def alert(self, alert: Any) -> None:
        """Give it to MixedPrecisionNanny as `on_alert`: a module that an ERROR names goes into FP32
        with the next step.
        """
        layer = getattr(alert, "layer", None)
        if alert.severity == "ERROR" and alert.type in _ALERTS and layer:
            self._named[layer] = f"alert {alert.type}"

    def state_dict(self) -> dict[str, Any]:
        """For resuming: what is in FP32, and what has been done."""
        return {
            "step": self._step,
            "dtype": None if self._dtype is None else str(self._dtype).removeprefix("torch."),
            "islands": {name: asdict(each) for name, each in self._islands.items()},
            "changed_modules": self._changed_modules,
            "good_scale": self._good_scale,
            "changes": [asdict(each) for each in self.changes],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Raises KeyError for a module that the model has not."""
        known = dict(self._model.named_modules())
        for name in state["islands"]:
            if name not in known:
                raise KeyError(f"the model has no module '{name}', which the guard had in FP32")
        self._step = int(state["step"])
        self._dtype = None if state["dtype"] is None else getattr(torch, state["dtype"])
        self._islands = {name: _Island(**each) for name, each in state["islands"].items()}
        self._changed_modules = int(state["changed_modules"])
        self._good_scale = state["good_scale"]
        self.changes = [Change(**each) for each in state["changes"]]
        self._apply()

    # --- within a step ---

    def _before_optimizer(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Without a scaler nobody else leaves out a step whose gradients are not finite."""
        if self._scaler is not None:
            return
        parameters = list(parameters_of(optimizer))
        gradients = [each.grad for each in parameters if each.grad is not None]
        if all_finite(gradients):
            return
        self._skipped = True
        for each in parameters:
            each.grad = None
        self._did("skipped", "gradients are not finite")

    def _scale(self) -> float | None:
        return None if self._scaler is None else float(self._scaler.get_scale())

    # --- after a step ---

    def _after(self, readings: list[Reading], looked: bool, bad: bool) -> None:
        if bad and self._buffers.put_back():
            self._did("buffers", "running statistics were not finite")
        found = self._found(readings, bad)
        if bad and not looked:
            self._unseen *= 4
        for name, why in found.items():
            self._widen(name, why)
        if found and bad:
            self._set_scale_back()
        if looked:
            self._looks_left = max(0, self._looks_left - 1)
            self._let_back(readings)
            self._check_parameters()
        if bad:
            self._looks_left = max(self._looks_left, min(_MOST_LOOKS, _LOOKS_AFTER * self._unseen))
        elif self._snapshot_every and self._step % self._snapshot_every == 0 and not found:
            self._snapshot = Snapshot(self._model, self._optimizer, self._step)

    def _found(self, readings: list[Reading], bad: bool) -> dict[str, str]:
        known = dict(self._model.named_modules())
        found = {name: why for name, why in self._named.items() if name in known}
        self._named.clear()
        if self._dtype is None:
            return {}
        found |= overflowing(readings, self._dtype, self._near, self._islands)
        scale = self._scale()
        if bad and not found and (scale is None or scale <= 1):
            found = overflowing_gradients(readings, self._islands)
        return {name: why for name, why in found.items() if name not in self._islands}

    def _widen(self, name: str, why: str) -> None:
        full = len(self._islands) >= self._most_islands
        if full or self._changed_modules >= self._most_changes:
            if not self._at_limit:
                self._at_limit = True
                self._did("limit", f"{name or 'the model'} stays: {why}", name)
            return
        returned = sum(each.kind == "low" and each.module == name for each in self.changes)
        # NaN in BF16 does not come from values that are too large: small ones would not tell.
        by_range = self._dtype is torch.float16
        self._islands[name] = _Island(self._step, None, self._calm_steps * 2**returned, by_range)
        self._changed_modules += 1
        self._apply()
        self._did("fp32", why, name)

    def _let_back(self, readings: list[Reading]) -> None:
        if self._dtype is None:
            return
        limit = LARGEST[self._dtype] / self._near / _CALM
        for reading in readings:
            island = self._islands.get(reading.name)
            if island is None:
                continue
            if not island.returns or max(reading.results, reading.inputs) > limit:
                island.calm_since = None
            elif island.calm_since is None:
                island.calm_since = self._step
            elif self._step - island.calm_since >= island.calm_steps:
                if self._changed_modules >= self._most_changes:
                    continue
                del self._islands[reading.name]
                self._changed_modules += 1
                self._apply()
                self._did("low", f"below {limit:.4g} for {island.calm_steps} steps", reading.name)

    def _set_scale_back(self) -> None:
        """The scale had fallen because of what is in FP32 now."""
        scale, good = self._scale(), self._good_scale
        if self._scaler is None or scale is None or good is None or scale >= good:
            return
        self._scaler.update(new_scale=good)
        self._did("scale", "its fall was due to a module that is in FP32 now", value=good)

    def _check_parameters(self) -> None:
        if self._snapshot is None or all_finite(list(self._model.parameters())):
            return
        self._snapshot.put_back()
        self._did("rolled_back", "parameters were not finite", value=float(self._snapshot.step))

    def _apply(self) -> None:
        self._undo()
        self._undo = lambda: None
        if self._islands and self._dtype is not None:
            self._undo = keep_fp32(self._model, self._islands, self._dtype, self._device_type)

    def _did(
        self, kind: str, reason: str, module: str | None = None, value: float | None = None
    ) -> None:
        change = Change(self._step, kind, reason, module, value)
        self.changes.append(change)
        if self.nanny is not None:
            self.nanny.event("precision_guard", json.dumps(asdict(change)))
        same = sum(each.kind == kind for each in self.changes)
        if not self._quiet and (kind != "skipped" or same <= _SKIPS_SHOWN):
            where = "" if module is None else f" {module or 'the model itself'}"
            to = "" if value is None else f" to {value:g}"
            print(f"mpnanny guard: step {self._step}: {kind}{where}{to}: {reason}", file=sys.stderr)
        if self._on_change is not None:
            self._on_change(change)


def _refuse(model: nn.Module) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, not {type(model).__name__}")
    if hasattr(model, "_orig_mod"):
        raise TypeError("a compiled model cannot be guarded: give the guard one that is not")
    if any(each.dtype in LARGEST for each in model.parameters()):
        raise TypeError("weights are kept in 16 bits; the guard changes what autocast does")
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        if distributed.get_world_size() > 1:
            raise TypeError("the guard works in trainings of one process")
