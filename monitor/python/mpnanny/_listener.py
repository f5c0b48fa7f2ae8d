"""Follows one training through what torch says (see _taps): when a step begins and ends, what it
holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch

from ._follower import StepFollower, harmless
from ._optimizers import Watched
from ._reading import found_inf, graph_task_id, reaches, tensors
from ._step import Figure, OpenStep, to_float


class TrainingListener(StepFollower):
    """The part of a nanny that hears."""

    def _begin_if_ours(self, losses: Any) -> None:
        """A compiled model's forward pass is not heard; its loss is, and so is that of others."""
        if self._open is None and not self._blocks_used:
            if self._is_ours(losses):  # and if that cannot be told, its forward pass was heard
                self._trains_in_eval = not self._model.training
                self._begin_if_needed()

    def _inverse_scale(self) -> Figure:
        """What gradients that nobody has unscaled must be multiplied by at this moment."""
        step = self._open
        if step is None or not step.uses_scaler or not step.scale_now:
            return 1.0
        return 1.0 / step.scale_now

    def _read_scale(self, scaler: Any) -> Figure | None:
        scale = getattr(scaler, "_scale", None)
        if scale is None:
            return float(getattr(scaler, "_init_scale", 0)) or None
        return cast("Figure | None", to_float(scale))

    def _is_ours(self, losses: Any) -> bool | None:
        """Whether this model has had a part in one of `losses`; None: that cannot be told."""
        if self._watched.sharded:  # their graph ends at parameters that live no longer than it
            return None
        found = [reaches(loss, self._parameter_ids) for loss in tensors(losses)]
        return True if True in found else None if None in found else False

    def _adopt(self, scaler: Any, is_ours: Callable[[], bool]) -> bool:
        """Whether `scaler` is one of this model's; of one that is new `is_ours` decides."""
        if not scaler.is_enabled():
            return False
        if scaler not in self._scalers:
            if not is_ours():
                return False
            self._scalers.add(scaler)
        if self._scaler is None:
            self._scaler = scaler
        return True

    def _use_scaler(self, step: OpenStep, scaler: Any) -> None:
        step.uses_scaler = True
        self._protocol.scaler(scaler)
        step.scale_now = self._read_scale(scaler)
        if step.scale is None and scaler is self._scaler:
            step.scale = step.scale_now
            step.growth_interval = int(scaler.get_growth_interval())

    @harmless
    def heard_scale(self, scaler: Any, outputs: Any, scaled: Any) -> None:
        self._begin_if_ours(outputs)
        step = self._open
        if step is None or not self._adopt(scaler, lambda: self._is_ours(outputs) is not False):
            return
        self._use_scaler(step, scaler)
        self._tracing.blame(outputs)
        for loss in tensors(outputs):
            if loss.numel() == 1:
                step.loss_from_scaler = True
                step.add_loss(to_float(loss))

    @harmless
    def heard_backward(self, losses: Any) -> None:
        self._begin_if_ours(losses)
        step = self._open
        if step is None or self._is_ours(losses) is False:
            return
        step.backward_heard = True
        step.backwards += 1
        self._tracing.enter("forward")
        self._tracing.blame(losses)
        if step.loss_from_scaler or (step.in_closure and step.closure_heard):
            return
        step.closure_heard = step.in_closure
        for loss in tensors(losses):
            if loss.numel() == 1:
                step.add_loss(to_float(loss))

    @harmless
    def heard_backward_ended(self) -> None:
        self._tracing.leave("forward")
        if self._open is not None:
            self._protocol.backward_ended(self._open)

    @harmless
    def heard_unscaled(self, scaler: Any, optimizer: Any) -> None:
        held = self._optimizers.held(optimizer)
        if self._open is not None and self._adopt(scaler, lambda: held is not None):
            self._read_gradients(held, 1.0)
            self._protocol.unscaled(self._open, optimizer)

    @harmless
    def heard_clip(self, parameters: Any, max_norm: Any, total_norm: Any) -> None:
        # A generator must not be consumed here; clip_grad_norm_ itself makes a list of it before.
        # What was unscaled has been read by then, so the rest is still scaled.
        step = self._open
        if step is None:
            return
        self._protocol.clipped(step, max_norm, total_norm)
        if self._watched.ids <= step.read:
            return
        clipped = self._watched.among(map(id, tensors(parameters)))
        self._read_gradients(clipped, self._inverse_scale())

    @harmless
    def heard_scaler_step(self, scaler: Any, optimizer: Any) -> None:
        held = self._optimizers.held(optimizer)
        if self._open is None or not self._adopt(scaler, lambda: held is not None):
            return
        if held is not None:
            self._open.awaits_update = True
            if optimizer is self._optimizers.main:
                self._scaler = scaler  # the one whose scale is recorded
            self._use_scaler(self._open, scaler)
            self._read_gradients(held, self._inverse_scale())

    @harmless
    def heard_scaler_stepped(self, scaler: Any, optimizer: Any) -> None:
        step = self._open
        if step is None or self._optimizers.held(optimizer) is None or not scaler.is_enabled():
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
        if self._open is not None and scaler is self._scaler and self._open.scale is None:
            self._open.scale = self._read_scale(scaler)

    @harmless
    def heard_updated(self, scaler: Any) -> None:
        step = self._open
        if step is None or scaler not in self._scalers:
            return
        if scaler is self._scaler:
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
        self._protocol.optimizer(optimizer)
        self._protocol.stepped(self._open, optimizer)
        self._tracing.optimizer(True, closure)
        self._open.in_closure, self._open.closure_heard = closure, False
        if not closure:  # else the closure makes the gradients
            # Had its scaler stepped it, they would be read: they are applied as they are.
            self._read_gradients(held, 1.0)
        if self._sampling and self._states is not None:
            self._states.before(held)

    @harmless
    def heard_optimizer_stepped(self, optimizer: Any) -> None:
        step = self._open
        held = self._optimizers.held(optimizer)
        if step is None or held is None:
            return
        self._tracing.optimizer(False)
        if step.in_closure:
            step.in_closure = False
            self._read_gradients(held, 1.0)
        if self._sampling and self._states is not None:
            self._states.after(optimizer, held, step.number)
        step.stepped.add(id(optimizer))
        if self._optimizers.count_step(optimizer):
            self._main_stepped(step, optimizer)
            if not step.awaits_update:
                self._finish_if_over(step)

    @harmless
    def heard_loaded(self, owner: Any) -> None:
        what = (
            "model"
            if owner is self._model
            else "scaler"
            if owner in self._scalers
            else "optimizer"
            if isinstance(owner, torch.optim.Optimizer) and self._holds_ours(owner)
            else None
        )
        if what is not None:
            self._protocol.loaded(what, self._steps_done > 0)

    def _holds_ours(self, optimizer: Any) -> bool:
        groups = optimizer.param_groups
        return any(id(p) in self._parameter_ids for group in groups for p in group["params"])

    def _main_stepped(self, step: OpenStep, optimizer: Any) -> None:
        step.optimizer_stepped = True
        step.lr = to_float(optimizer.param_groups[0].get("lr"))  # before a scheduler changes it

    def _finish_if_over(self, step: OpenStep) -> None:
        if not step.optimizer_stepped:
            return
        if not step.explicit:
            if graph_task_id() != -1:  # optimizers that step within the backward pass: more follow
                step.over = True
                return
            if not step.uses_scaler:  # optimizers that step after the main one
                for held in self._optimizers.others():
                    self._read_gradients(held, 1.0)
            self._finish()
        elif step.ended is not None:
            self._finish()

    def _read_gradients(self, held: Watched | None, factor: Figure) -> None:
        """Each once a step, at the first moment that shows them whole and not yet clipped."""
        step = self._open
        if step is None or held is None or held.ids <= step.read:
            return
        if step.read:
            held = held.without(step.read)
        if self._sampling:
            self._reader.weights(held.layers, held.parameters)
        gradients = [parameter.grad for parameter in held.parameters]
        self._protocol.gradients_used(step, gradients)
        self._reader.gradients(held.layers, gradients, factor)
        step.read |= held.ids
