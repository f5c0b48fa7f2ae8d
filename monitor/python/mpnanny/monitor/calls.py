"""What torch's own calls (hooks/taps) mean for the step that is open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..base.notes import harmless
from ..model.optimizers import ids_of
from ..model.selection import Watched
from ..steps.reading import found_inf, graph_task_id, tensors
from ..steps.scalers import read_scale
from ..steps.step import Figure, OpenStep, to_float
from ..steps.thread import UPDATE, of_step
from .loss_calls import LossCalls


class TorchCalls(LossCalls):
    """Hears all of torch's calls for one run: those about losses, and here those of scalers,
    clipping and optimizers, which use the gradients.
    """

    # --- gradients ---

    def _held(self, optimizer: Any) -> Watched | None:
        """The watched parameters that it updates; None if it is another model's."""
        held = self._optimizers.held(optimizer)
        step = self.state.open
        if held is None and step is not None and step.backward_heard:
            held = self._optimizers.adopt(optimizer)
        return held

    def _read(self, optimizer: Any, held: Watched | None, factor: Figure) -> None:
        """The gradients that `optimizer` gets. Where it holds copies of the parameters and these
        have gradients, they are what it uses; `factor` is that of the parameters' own.
        """
        given = self._optimizers.given(optimizer)
        step = self.state.open
        if given is None or step is None:
            self._gradients.read(held, factor)
        elif held is not None and held.ids.isdisjoint(step.read):
            self._gradients.read(held, 1.0, given)

    def _factor(self, optimizer: Any) -> Figure:
        """What gradients are unscaled by that are applied as they are: of copies those have been
        unscaled, and not the parameters' own.
        """
        return self.state.inverse_scale() if self._optimizers.has_copies(optimizer) else 1.0

    def _updates(self, optimizer: Any) -> bool:
        """Whether the calling thread is heard where it updates weights with `optimizer`."""
        return self._joins(UPDATE, lambda: self._optimizers.holds_some(optimizer))

    @harmless
    def heard_gradients_unscaled(self, scaler: Any, optimizer: Any) -> None:
        if self._updates(optimizer):
            self._unscaled(scaler, optimizer)

    @of_step
    def _unscaled(self, scaler: Any, optimizer: Any) -> None:
        held = self._held(optimizer)
        step = self.state.open
        if step is not None and self._scalers.adopt(scaler, lambda: held is not None):
            self._take_back(step, optimizer)
            self._read(optimizer, held, self._factor(optimizer))
            step.unscaled.add(id(optimizer))
            self._events.gradients_unscaled(step, scaler, optimizer)

    @harmless
    def heard_gradients_clipped(self, parameters: Any, max_norm: Any, total_norm: Any) -> None:
        ids = self._model.parameter_ids
        if self._joins(UPDATE, lambda: any(id(each) in ids for each in tensors(parameters))):
            self._clips(parameters, max_norm, total_norm)

    @of_step
    def _clips(self, parameters: Any, max_norm: Any, total_norm: Any) -> None:
        # A generator must not be consumed here; clip_grad_norm_ itself makes a list of it before.
        # What was unscaled has been read by then, so the rest is still scaled.
        step = self.state.open
        if step is None:
            return
        self._events.gradients_clipped(step, parameters, max_norm, total_norm)
        watched = self._model.parameters
        if watched.ids <= step.read:
            return
        if self._optimizers.main is not None:
            self._take_back(step, self._optimizers.main)
        ids = set(map(id, tensors(parameters)))
        for optimizer, originals in self._optimizers.copied(ids):
            given = self._optimizers.given(optimizer)
            if given is not None and originals.ids.isdisjoint(step.read):
                self._gradients.read(originals, self.state.inverse_scale(), given)
        clipped = watched.among(ids)
        self._gradients.read(clipped, self.state.inverse_scale())

    # --- scalers and optimizers ---

    @harmless
    def heard_scaler_steps(self, scaler: Any, optimizer: Any) -> None:
        if self._updates(optimizer):
            self._scaler_steps(scaler, optimizer)

    @of_step
    def _scaler_steps(self, scaler: Any, optimizer: Any) -> None:
        held = self._held(optimizer)
        step = self.state.open
        if step is None or not self._scalers.adopt(scaler, lambda: held is not None):
            return
        if held is not None:
            step.awaits_update = True
            if optimizer is self._optimizers.main:
                self._scalers.main = scaler  # the one whose scale is recorded
            self._use_scaler(step, scaler)
            self._events.scaler_steps(step, scaler, optimizer)
            self._take_back(step, optimizer)
            if self._optimizers.given(optimizer) is None or id(optimizer) not in step.unscaled:
                self._gradients.read(
                    held, self.state.inverse_scale(), self._optimizers.given(optimizer)
                )

    @of_step
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

    @of_step
    def heard_scale_updates(self, scaler: Any) -> None:
        step = self.state.open
        if step is not None and scaler is self._scalers.main and step.scale is None:
            step.scale = read_scale(scaler)

    @of_step
    def heard_scale_updated(self, scaler: Any) -> None:
        step = self.state.open
        if step is None or scaler not in self._scalers:
            return
        if scaler is self._scalers.main:
            step.scale_after = read_scale(scaler)
        step.awaits_update = False
        self._events.scale_updated(step, scaler)
        self._finish_if_over(step)

    @harmless
    def heard_optimizer_begins(self, optimizer: Any, closure: bool) -> None:
        if self._updates(optimizer):
            self._optimizer_begins(optimizer, closure)

    @of_step
    def _optimizer_begins(self, optimizer: Any, closure: bool) -> None:
        held = self._held(optimizer)
        if held is None:
            self._left_out.stepped(optimizer)
            if self.state.open is not None:
                self.state.open.served = True
            return
        if optimizer is self._optimizers.main:
            self._steps.begin_if_needed()
        step = self.state.open
        if step is None:
            return
        self._thread.reaches(UPDATE)
        step.in_closure, step.closure_heard = closure, False
        if not self._thread.is_alone():
            self.notes.note(
                "a thread updates the weights while another one derives them: gradients of such"
                " steps are not read"
            )
            return
        self._events.optimizer_begins(step, optimizer, held, closure)
        if not closure:  # else the closure makes the gradients
            self._take_back(step, optimizer)
            # Had its scaler stepped it, they would be read: they are applied as they are.
            self._read(optimizer, held, self._factor(optimizer))
        moved = self._optimizers.moved(optimizer, held)
        if self.state.sampling and moved is not None:
            self._states.before(moved)

    @harmless
    def heard_closure_begins(self, optimizer: Any) -> None:
        self._closure(optimizer, self._events.closure_begins)

    @harmless
    def heard_closure_ended(self, optimizer: Any) -> None:
        self._closure(optimizer, self._events.closure_ended)

    @of_step
    def _closure(self, optimizer: Any, tell: Callable[[OpenStep, Any, Watched], None]) -> None:
        step, held = self.state.open, self._held(optimizer)
        if step is not None and step.in_closure and held is not None and self._thread.is_alone():
            tell(step, optimizer, held)

    @of_step
    def heard_optimizer_ended(self, optimizer: Any) -> None:
        step = self.state.open
        held = self._held(optimizer)
        if step is None or held is None:
            return
        if self._thread.is_alone():
            self._read_after(step, optimizer, held)
        step.in_closure = False
        step.stepped.add(id(optimizer))
        if self._optimizers.count_step(optimizer):
            _main_stepped(step, optimizer)
            if not step.awaits_update:
                self._finish_if_over(step)

    def _read_after(self, step: OpenStep, optimizer: Any, held: Watched) -> None:
        self._events.optimizer_ended(step, optimizer, held)
        if step.in_closure or not step.read:  # or a run that began within this call
            step.in_closure = False
            self._read(optimizer, held, self._factor(optimizer))
        moved = self._optimizers.moved(optimizer, held)
        if self.state.sampling and moved is not None:
            self._states.after(optimizer, moved, step.number)

    def _finish_if_over(self, step: OpenStep) -> None:
        if not step.optimizer_stepped:
            return
        self._by_hand.per_step = max(step.backwards, 1)
        self._left.updated(step)
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

    @harmless
    def heard_zeroed(self, owner: Any) -> None:
        """`owner`, an optimizer or a module, has zeroed the gradients of its parameters."""
        if self._thread.is_here() and self.state.open is not None:
            self._zeroed(owner)

    @of_step
    def _zeroed(self, owner: Any) -> None:
        step = self.state.open
        if step is None:
            return
        if isinstance(owner, torch.optim.Optimizer):
            ours = self._optimizers.holds_some(owner)
        else:
            ours = any(id(each) in self._model.parameter_ids for each in owner.parameters())
        if ours:
            self._left.zeroed(step)

    # --- states ---

    @of_step
    def heard_compile_begins(self) -> None:
        self._events.compile_begins()

    @of_step
    def heard_mode_enters(self, mode: Any) -> None:
        self._events.mode_enters(mode)

    @harmless
    def heard_state_saved(self, content: Any) -> None:
        if self.state.thread.is_here():
            self._events.state_saved(content)

    def heard_state_loaded(self, owner: Any) -> None:
        if owner is self._model.module:
            self._events.state_loaded("model")
        elif owner in self._scalers:
            self._events.state_loaded("scaler")
        elif isinstance(owner, torch.optim.Optimizer):
            if ids_of(owner) & self._model.parameter_ids:
                self._events.state_loaded("optimizer")


def _main_stepped(step: OpenStep, optimizer: Any) -> None:
    step.optimizer_stepped = True
    step.lr = to_float(optimizer.param_groups[0].get("lr"))  # before a scheduler changes it
