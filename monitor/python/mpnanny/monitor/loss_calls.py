"""What torch's calls about losses (scaling, backward, torch.autograd.grad, torch.func) mean for the
step that is open.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from ..base.notes import harmless
from ..hooks.forward import ForwardHooks
from ..model import functional
from ..steps.by_hand import Witness
from ..steps.context import LoopContext, RunContext
from ..steps.gradients import Gradients
from ..steps.life import Steps
from ..steps.losses import divisor_of
from ..steps.optimizer_states import OptimizerStates
from ..steps.reading import graph_task_id, reaches, tensors
from ..steps.step import OpenStep, to_float
from ..steps.thread import BACKWARD, alone, here, of_step
from .left_out import LeftOut


class LossCalls:
    """Hears them for one run, sorts out those of other models and of other threads (thread.py), and
    passes the rest on to the step and, as events, to the parts of the run. Every method is harmless
    to training.

    What is heard in the step's thread is taken as ever. In another one what can move the step there
    is looked at first, without waiting for anybody: whether it is of this model at all.
    """

    def __init__(
        self,
        run: RunContext,
        loop: LoopContext,
        steps: Steps,
        states: OptimizerStates,
        hooks: ForwardHooks,
    ) -> None:
        self.state = run.state
        self.notes = run.notes
        self._thread = run.state.thread
        self._left_out = LeftOut(run.notes.note)
        self._model = run.model
        self._events = run.events
        self._gradients = Gradients(run.state, run.events)
        self._optimizers = loop.optimizers
        self._scalers = loop.scalers
        self._by_hand = loop.by_hand
        self._left = loop.left
        self._steps = steps
        self._states = states
        self._hooks = hooks

    def hooks_off(self) -> AbstractContextManager[None]:
        return self._hooks.off()

    # --- what came before the model was known ---

    @alone
    def take_missed(self, steps: list[list[Any]]) -> None:
        """Steps that are over: of each the losses."""
        for losses in steps:
            self._by_hand.certain = True
            self._steps.open_missed(losses)
            self._steps.end_missed()

    def open_missed(self, losses: list[Any]) -> None:
        """A step that an optimizer is about to end: its losses."""
        self._steps.open_missed(losses)

    # --- losses ---

    def _begin_if_ours(self, ours: Callable[[], bool | None]) -> None:
        """A compiled model's forward pass is not heard; its loss is, and so is that of others."""
        state = self.state
        if state.open is not None and self._thread.is_alone():
            step = state.open
            if (self._by_hand.is_over(step) or self._left.backward_begins(step)) and ours():
                self._steps.finish()  # no module runs as a whole
        if state.open is None and not state.blocks_used:
            if ours():  # and if that cannot be said, its forward pass was heard
                state.trains_in_eval = not self._model.module.training
                self._steps.begin_if_needed()

    def _joins(self, stage: int, ours: Callable[[], bool | None]) -> bool:
        """Whether what the calling thread does at `stage` is heard: it has the step, or gets it by
        this, as far as it is `ours`.
        """
        if self._thread.is_here():
            return True
        return ours() is True and bool(self._steps.joins(stage))

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
    def heard_loss_scaled(self, scaler: Any, outputs: Any, scaled: Any) -> None:
        if self._joins(BACKWARD, lambda: self._is_ours(outputs)):
            self._scaled(scaler, outputs, scaled)

    @of_step
    def _scaled(self, scaler: Any, outputs: Any, scaled: Any) -> None:
        self._begin_if_ours(lambda: self._is_ours(outputs))
        step = self.state.open
        if step is None:
            return
        if not self._scalers.adopt(scaler, lambda: self._is_ours(outputs) is not False):
            return
        self._use_scaler(step, scaler)
        self._forget_dropped(step)
        self._events.loss_scaled(step, scaler, outputs, scaled)
        step.loss_from_scaler = _add_losses(step, outputs) or step.loss_from_scaler
        step.scaled = tuple(weakref.ref(each) for each in tensors(scaled))

    @harmless
    def heard_backward_begins(self, losses: Any) -> None:
        ours = self._is_ours(losses)
        sharded = self._model.parameters.sharded
        self._thread.pass_begins(ours is True or (ours is None and sharded))
        if self._joins(BACKWARD, lambda: ours):
            self._derives(losses, ours)

    @of_step
    def _derives(self, losses: Any, ours: bool | None) -> None:
        """Gradients of `losses` are about to be taken, or have been."""
        self._begin_if_ours(lambda: ours)
        step = self.state.open
        if step is None or ours is False:
            return
        self._thread.reaches(BACKWARD)
        self._forget_dropped(step)
        step.backward_heard = True
        step.backwards += 1
        self._events.backward_begins(step, losses)
        if step.loss_from_scaler or (step.in_closure and step.closure_heard):
            return
        step.closure_heard = step.in_closure
        _add_losses(step, losses)

    def _forget_dropped(self, step: OpenStep) -> None:
        """Of an earlier backward pass whose gradients were dropped before this one, as of a
        generator's loss through its critic, the loss is not this step's: until it shows that they
        were put aside and come to the optimizer all the same.
        """
        if step.witness is None or step.in_closure or step.read or not self._thread.is_alone():
            return
        witness, step.witness = step.witness, None
        if witness.is_gone():
            step.losses.drop()
            step.dropped += step.backwards
            step.loss_from_scaler, step.backwards = False, 0

    def _take_back(self, step: OpenStep, optimizer: Any) -> None:
        """The gradients of earlier passes are gone from .grad. Where `optimizer` is not about to
        use those of the last pass alone, the program has added them up elsewhere.
        """
        if not step.losses.dropped or step.witness is None or step.read:
            return
        gradient = self._optimizers.gradient_of(optimizer, step.witness.parameter)
        if gradient is None or step.witness.is_alone_in(gradient):
            return
        step.losses.take_back()
        step.backwards += step.dropped
        step.dropped, step.taken_out = 0, True
        step.added_in = str(gradient.dtype)[6:]

    @harmless
    def heard_backward_ended(self) -> None:
        self._thread.pass_ends()
        if self._thread.is_here():
            self._derived()

    @of_step
    def _derived(self) -> None:
        step = self.state.open
        if step is None or not self._thread.is_alone():  # else there is more to come
            return
        self._events.backward_ended(step)
        given = (p for p in reversed(self._model.parameters.parameters) if p.grad is not None)
        parameter = next(given, None)
        step.witness = None if parameter is None else Witness(parameter)
        if parameter is not None:
            step.added_in = str(parameter.grad.dtype)[6:]
        if step.backward_heard and graph_task_id() == -1 and self._by_hand.backward_ended(step):
            self._gradients.read(self._model.parameters, self.state.inverse_scale())
            self._end_by_hand(step)

    def _end_by_hand(self, step: OpenStep) -> None:
        """Tensors in no module: nothing more will be heard of the step. A module's ends when that
        runs again, which shows whether an update lies between.
        """
        if self._optimizers.main is None and not step.explicit and not self._model.has_modules:
            self._steps.finish()

    @harmless
    def heard_gradients(self, outputs: Any, inputs: Any, gradients: Any) -> None:
        """torch.autograd.grad() has returned `gradients` of `inputs`, which are no .grad."""
        if isinstance(inputs, dict):
            inputs, gradients = list(inputs.values()), list(gradients.values())
        ids = {id(each) for each in tensors(inputs)} & self._model.parameter_ids
        if ids and self._joins(BACKWARD, lambda: True):
            self._given(outputs, inputs, gradients, ids)

    @harmless
    def heard_derived_again(self, outputs: Any) -> None:
        """torch.autograd.grad() has made a graph of its gradients."""
        if self._thread.is_here():
            self._penalised(outputs)

    @of_step
    def _penalised(self, outputs: Any) -> None:
        """Gradients of `outputs` go into the loss, as a slope of scores into a penalty:
        what a scaler has scaled for that is none.
        """
        step = self.state.open
        if step is None or not step.scaled:
            return
        scaled = {id(each()) for each in step.scaled} - {id(None)}
        if scaled & {id(each) for each in tensors(outputs)}:
            step.scaled = ()
            step.loss_from_scaler = step.losses.take_last_out()

    @of_step
    def _given(self, outputs: Any, inputs: Any, gradients: Any, ids: set[int]) -> None:
        """`gradients` of `inputs`, of which `ids` are weights of the model."""
        self._derives(outputs, self._is_ours(outputs))
        step = self.state.open
        if step is None or not self._thread.is_alone():
            return
        self._events.backward_ended(step)
        if self._by_hand.backward_ended(step):
            own = {id(p): g for p, g in zip(tensors(inputs), gradients, strict=True)}
            held = self._model.parameters.among(ids)
            found = [own[id(each)] for each in held.parameters]
            self._gradients.read(held, self.state.inverse_scale(), found)
            self._end_by_hand(step)

    @harmless
    def heard_function_begins(self) -> None:
        """A gradient of torch.func, in which modules may run."""
        self._thread.deriving.add(here())
        if self._thread.is_here():
            self.state.functional = True

    @harmless
    def heard_function_ended(self, weights: Any, gradients: Any, value: Any) -> None:
        """`value` of a function and its gradients; None where it failed or gives none."""
        self._thread.deriving.discard(here())
        if self._thread.is_here():
            self.state.functional = False
        elif self.state.number >= 0:
            return  # weights are known by names alone, which another training may have as well
        layers = None if value is None else functional.match(self._model, weights)
        if layers is not None:
            self._function_derived(weights, gradients, value, layers)

    @alone
    def _function_derived(
        self, weights: Any, gradients: Any, value: Any, layers: list[int]
    ) -> None:
        state = self.state
        if state.open is None and not state.blocks_used:
            self._steps.begin_if_needed()
        step = state.open
        if step is None:
            return
        self._thread.reaches(BACKWARD)
        step.backward_heard = True
        step.backwards += 1
        step.losses.add([functional.mean_loss(value)])
        loss = functional.plain(value)
        self._events.backward_begins(step, [loss] if loss.numel() == 1 else [])
        self._events.backward_ended(step)
        if self._optimizers.main is not None:
            return
        if functional.is_batched():
            self.notes.note(
                "gradients of single samples (vmap): the gradient norm is that of all of them"
            )
        held = functional.as_watched(weights, layers)
        found = [tensor for _, tensor in functional.named(gradients)]
        # The model's own parameters may still get these gradients, for an optimizer or by hand.
        own = not held.ids.isdisjoint(self._model.parameter_ids)
        if own and not self._by_hand.backward_ended(step):
            return
        self._gradients.read(held, 1.0, found)
        step.read |= self._model.parameters.ids  # what the module holds is not what is trained
        if own:
            self._end_by_hand(step)
        elif not step.explicit:
            self._steps.finish()


def _add_losses(step: OpenStep, losses: Any) -> bool:
    """Adds those of one backward pass; whether there is one with a single number."""
    found = [loss for loss in tensors(losses) if loss.numel() == 1]
    divisors = {divisor_of(loss) for loss in found}
    step.losses.add([to_float(each) for each in found], min(divisors) if len(divisors) == 1 else 1)
    return bool(found)
