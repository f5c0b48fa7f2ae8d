"""What torch's own calls (hooks/taps) mean for the step that is open."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch

from ..hooks.forward import ForwardHooks
from ..model.optimizers import Optimizers
from ..model.watched import WatchedModel
from ..report.notes import Notes, harmless
from .gradients import Gradients
from .life import Steps
from .listeners import StepListener
from .optimizer_states import OptimizerStates
from .reading import found_inf, graph_task_id, reaches, tensors
from .scalers import Scalers, read_scale
from .state import RunState
from .step import OpenStep, to_float


class TorchCalls:
    """Hears them for one run, sorts out those of other models, and passes the rest on to the step
    and, as events, to the parts of the run. Every method is harmless to training.
    """

    def __init__(
        self,
        state: RunState,
        notes: Notes,
        model: WatchedModel,
        optimizers: Optimizers,
        scalers: Scalers,
        steps: Steps,
        gradients: Gradients,
        states: OptimizerStates,
        hooks: ForwardHooks,
        events: StepListener,
    ) -> None:
        self.state = state
        self.notes = notes
        self._model = model
        self._optimizers = optimizers
        self._scalers = scalers
        self._steps = steps
        self._gradients = gradients
        self._states = states
        self._hooks = hooks
        self._events = events

    def hooks_off(self) -> AbstractContextManager[None]:
        return self._hooks.off()

    # --- losses ---

    def _begin_if_ours(self, losses: Any) -> None:
        """A compiled model's forward pass is not heard; its loss is, and so is that of others."""
        state = self.state
        if state.open is None and not state.blocks_used:
            if self._is_ours(losses):  # and if that cannot be said, its forward pass was heard
                state.trains_in_eval = not self._model.module.training
                self._steps.begin_if_needed()

    def _is_ours(self, losses: Any) -> bool | None:
        """Whether this model has had a part in one of `losses`; None: that cannot be said."""
        if self._model.parameters.sharded:  # their graph ends at parameters that live no longer
            return None
        found = [reaches(loss, self._model.parameter_ids) for loss in tensors(losses)]
        return True if True in found else None if None in found else False

    def _use_scaler(self, step: OpenStep, scaler: Any) -> None:
        self._scalers.use(step, scaler)
        self._events.scaler_used(step, scaler)

    @harmless
    def heard_scale(self, scaler: Any, outputs: Any, scaled: Any) -> None:
        self._begin_if_ours(outputs)
        step = self.state.open
        if step is None:
            return
        if not self._scalers.adopt(scaler, lambda: self._is_ours(outputs) is not False):
            return
        self._use_scaler(step, scaler)
        self._events.loss_scaled(step, scaler, outputs, scaled)
        for loss in tensors(outputs):
            if loss.numel() == 1:
                step.loss_from_scaler = True
                step.add_loss(to_float(loss))

    @harmless
    def heard_backward(self, losses: Any) -> None:
        self._begin_if_ours(losses)
        step = self.state.open
        if step is None or self._is_ours(losses) is False:
            return
        step.backward_heard = True
        step.backwards += 1
        self._events.backward_begins(step, losses)
        if step.loss_from_scaler or (step.in_closure and step.closure_heard):
            return
        step.closure_heard = step.in_closure
        for loss in tensors(losses):
            if loss.numel() == 1:
                step.add_loss(to_float(loss))

    @harmless
    def heard_backward_ended(self) -> None:
        if self.state.open is not None:
            self._events.backward_ended(self.state.open)

    # --- gradients ---

    @harmless
    def heard_unscaled(self, scaler: Any, optimizer: Any) -> None:
        held = self._optimizers.held(optimizer)
        step = self.state.open
        if step is not None and self._scalers.adopt(scaler, lambda: held is not None):
            self._gradients.read(held, 1.0)
            step.unscaled.add(id(optimizer))
            self._events.gradients_unscaled(step, scaler, optimizer)

    @harmless
    def heard_clip(self, parameters: Any, max_norm: Any, total_norm: Any) -> None:
        # A generator must not be consumed here; clip_grad_norm_ itself makes a list of it before.
        # What was unscaled has been read by then, so the rest is still scaled.
        step = self.state.open
        if step is None:
            return
        self._events.gradients_clipped(step, parameters, max_norm, total_norm)
        watched = self._model.parameters
        if watched.ids <= step.read:
            return
        clipped = watched.among(map(id, tensors(parameters)))
        self._gradients.read(clipped, self.state.inverse_scale())

    # --- scalers and optimizers ---

    @harmless
    def heard_scaler_step(self, scaler: Any, optimizer: Any) -> None:
        held = self._optimizers.held(optimizer)
        step = self.state.open
        if step is None or not self._scalers.adopt(scaler, lambda: held is not None):
            return
        if held is not None:
            step.awaits_update = True
            if optimizer is self._optimizers.main:
                self._scalers.main = scaler  # the one whose scale is recorded
            self._use_scaler(step, scaler)
            self._events.scaler_steps(step, scaler, optimizer)
            self._gradients.read(held, self.state.inverse_scale())

    @harmless
    def heard_scaler_stepped(self, scaler: Any, optimizer: Any) -> None:
        step = self.state.open
        if step is None or self._optimizers.held(optimizer) is None or not scaler.is_enabled():
            return
        # A fused optimizer skips inside its own kernel: there only the found-inf of the scaler
        # says so.
        fused = getattr(optimizer, "_step_supports_amp_scaling", False)
        skipped = found_inf(scaler, optimizer) if fused else id(optimizer) not in step.stepped
        step.skipped = step.skipped or skipped
        self._events.scaler_stepped(step, scaler, optimizer, skipped)
        if skipped and not fused and self._optimizers.count_step(optimizer):
            _main_stepped(step, optimizer)

    @harmless
    def heard_update(self, scaler: Any) -> None:
        step = self.state.open
        if step is not None and scaler is self._scalers.main and step.scale is None:
            step.scale = read_scale(scaler)

    @harmless
    def heard_updated(self, scaler: Any) -> None:
        step = self.state.open
        if step is None or scaler not in self._scalers:
            return
        if scaler is self._scalers.main:
            step.scale_after = read_scale(scaler)
        step.awaits_update = False
        self._events.scale_updated(step, scaler)
        self._finish_if_over(step)

    @harmless
    def heard_optimizer_step(self, optimizer: Any, closure: bool) -> None:
        held = self._optimizers.held(optimizer)
        if held is None:
            return
        if optimizer is self._optimizers.main:
            self._steps.begin_if_needed()
        step = self.state.open
        if step is None:
            return
        self._events.optimizer_begins(step, optimizer, held, closure)
        step.in_closure, step.closure_heard = closure, False
        if not closure:  # else the closure makes the gradients
            # Had its scaler stepped it, they would be read: they are applied as they are.
            self._gradients.read(held, 1.0)
        if self.state.sampling:
            self._states.before(held)

    @harmless
    def heard_optimizer_stepped(self, optimizer: Any) -> None:
        step = self.state.open
        held = self._optimizers.held(optimizer)
        if step is None or held is None:
            return
        self._events.optimizer_ended(step, optimizer, held)
        if step.in_closure:
            step.in_closure = False
            self._gradients.read(held, 1.0)
        if self.state.sampling:
            self._states.after(optimizer, held, step.number)
        step.stepped.add(id(optimizer))
        if self._optimizers.count_step(optimizer):
            _main_stepped(step, optimizer)
            if not step.awaits_update:
                self._finish_if_over(step)

    def _finish_if_over(self, step: OpenStep) -> None:
        if not step.optimizer_stepped:
            return
        if not step.explicit:
            if graph_task_id() != -1:  # optimizers that step within the backward pass: more follow
                step.over = True
                return
            if not step.uses_scaler:  # optimizers that step after the main one
                for held in self._optimizers.others():
                    self._gradients.read(held, 1.0)
            self._steps.finish()
        elif step.ended is not None:
            self._steps.finish()

    # --- states ---

    @harmless
    def heard_compile(self) -> None:
        self._events.compile_begins()

    @harmless
    def heard_mode(self, mode: Any) -> None:
        self._events.mode_enters(mode)

    @harmless
    def heard_loaded(self, owner: Any) -> None:
        if owner is self._model.module:
            self._events.state_loaded("model")
        elif owner in self._scalers:
            self._events.state_loaded("scaler")
        elif isinstance(owner, torch.optim.Optimizer) and self._holds_ours(owner):
            self._events.state_loaded("optimizer")

    def _holds_ours(self, optimizer: Any) -> bool:
        ids, groups = self._model.parameter_ids, optimizer.param_groups
        return any(id(p) in ids for group in groups for p in group["params"])


def _main_stepped(step: OpenStep, optimizer: Any) -> None:
    step.optimizer_stepped = True
    step.lr = to_float(optimizer.param_groups[0].get("lr"))  # before a scheduler changes it
