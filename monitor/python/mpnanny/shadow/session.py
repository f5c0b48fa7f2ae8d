"""The shadow steps of one run: when they begin and end, and what all of them found.

Hears of the training through the methods below, in the order in which things happen, and hands a
step that fails without a shadow to failing_step; knows nothing of files.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from ..fp64.findings import CameIn, Finding
from ..fp64.history import is_float
from ..fp64.places import Site
from ..model import casts, checkpoints
from ..model.functional import plain
from ..model.parts import roots
from ..model.shards import local_part
from ..relations.divergence import Divergence
from ..relations.gradient_flow import Relations
from .changes import Changes
from .failing_step import FailingStep
from .memory import allowance
from .prelude import Prelude
from .replay import Replay, rank_of_process
from .scale_tests import ScaleTests
from .schedule import Schedule
from .severities import Severities
from .step import ShadowStep
from .stopwatch import Stopwatch
from .surroundings import Sink, Stack

MOST_EVALUATION = 1.0  # seconds of its own that the shadow of an evaluation may take


def _changes() -> int:
    """Casts of modules to 16 bits and loads so far."""
    return casts.count() + checkpoints.loads()


class ShadowSession:
    """`states()`: name and tensor of buffers. `prelude`: the shadow that is on since the program
    began, with which the first shadow step goes on.
    """

    def __init__(
        self,
        model: nn.Module,
        schedule: Schedule,
        stack: Stack,
        sink: Sink,
        states: Callable[[], Iterable[tuple[str, torch.Tensor]]],
        trouble: Callable[[Exception], None],
        prelude: Prelude | None = None,
    ) -> None:
        self._model = weakref.ref(model)
        self._schedule = schedule
        self._stack = stack
        self._sink = sink
        self._states = states
        self._trouble = trouble
        self._prelude = prelude
        self._names: dict[int, str] = {} if prelude is None else prelude.names
        self._modules: dict[int, str] = {} if prelude is None else prelude.modules
        self._changes = Changes(self._names.get) if prelude is None else prelude.changes
        self._failing = FailingStep(
            self._model,
            self._modules,
            self._make,
            stack.push,
            stack.remove,
            self._ran_again,
            schedule.can_pay,
            trouble,
        )
        # The training step under way.
        self._step: ShadowStep | None = None
        self._thread = 0  # on whose stack it is
        self._why = ""
        self._count = 0  # training steps so far
        self._number = 0  # the step's number
        self._over = False  # it has ended; what follows until the model runs belongs to it
        self._evaluated = False  # the model was evaluated after the last step
        self._ran = False  # the model ran in the step under way
        self._changes_seen = _changes()
        self._began = Stopwatch()
        # The run.
        self._on = True
        self._severities = Severities(schedule)
        self._heard_model = False
        self._has_modules = bool(roots(model))  # whose forward passes show where steps begin
        self._first_loss: float | None = None
        self._divergence = Divergence(self._model)
        self._relations = Relations(self._model, trouble)
        self._scale_tests = ScaleTests(self._model)

    @property
    def shadowing(self) -> bool:
        return self._step is not None

    @property
    def watches_failures(self) -> bool:
        """Whether a step that fails now would be looked at."""
        free = self._on and self._step is None
        return free and not self._severities.broken and self._failing.watches

    def is_kept(self, weight: torch.Tensor) -> bool:
        """As Changes.is_kept, of the newest shadow step."""
        return self._changes.is_kept(weight)

    @property
    def rounds_weights(self) -> CameIn | None:
        """As Changes.rounds_weights."""
        return self._changes.rounds_weights

    def home_of(self, tensor: torch.Tensor) -> Site | None:
        """Where a tensor of 16 bits or fewer was allocated, if that was followed."""
        return self._changes.births.of(tensor)

    # --- what happens in the training ---

    def start(self) -> None:
        """The model is there, the training begins."""
        prelude, self._prelude = self._prelude, None
        if prelude is None:
            self._begin(self._schedule.why(self._count))
        elif not prelude.hand_over():
            if prelude.is_here():
                self._report(prelude.step.finish(()))
            self._begin(self._schedule.why(self._count))
        elif self._schedule.eager:  # it began without that
            prelude.end()
            self._begin(self._schedule.why(self._count))
        elif self._schedule.why(self._count):
            self._know()
            self._step, self._why = prelude.step, "first"
            self._thread = threading.get_ident()
            self._step.started = self._began
            self._step.mode.limit(seconds=self._schedule.most_seconds())
            self._sink.begins(self._step, allowance())
            self._relations.begins(self._step)
        else:
            prelude.end()

    def begins(self, number: int) -> None:
        """Training step `number` begins."""
        self._follow()
        self._boundary()
        self._number = number
        if self._step is not None:
            self._step.number = number

    def moved(self) -> None:
        """The training step under way goes on in the thread that calls."""
        self._failing.forget()
        self._follow()

    def _follow(self) -> None:
        """A shadow that is on the stack of another thread is given up, for one on this thread's."""
        step, why = self._step, self._why
        if step is not None and self._thread != threading.get_ident():
            began = step.mode.operators > 0
            self._give_up(step)
            if not began and not self._over:
                self._begin(why)

    def _give_up(self, step: ShadowStep) -> None:
        self._step = None
        step.mode.give_up()
        self._stack.leave(step.mode, self._thread)
        self._schedule.shadowed(self._count, step.started.seconds(), step.mode.seconds)
        self._began = Stopwatch()

    def model_runs(self, args: Any, kwargs: Any, device: str) -> None:
        """The model's forward pass begins, with gradients."""
        self._heard_model = True
        if self._has_changed() and self._schedule.changed(self._count):
            self._begin("change")
        if self.watches_failures:
            self._failing.model_runs(args, kwargs, device)

    def _has_changed(self) -> bool:
        """Whether modules were cast or states loaded since the last forward pass, in a step without
        shadow that may still begin one: what a change breaks it breaks at once.
        """
        count = _changes()
        is_new, self._changes_seen = count != self._changes_seen, count
        is_first, self._ran = not self._ran, True  # later, gradients of the step are there already
        may_begin = self._step is None and self._on and not self._schedule.eager
        return is_new and is_first and may_begin

    def model_evaluates(self) -> None:
        """The model runs in an evaluation. Its metrics may steer the training: it is looked at
        together with the step that follows.
        """
        if self._step is not None or not self._on or self._evaluated or not self._heard_model:
            return
        if self._schedule.eager:
            return  # no step may begin inside of a compiled function
        self._evaluated = True
        if self._schedule.evaluation(self._count):
            self._begin("evaluation")
            if self._step is not None:
                self._step.mode.limit(seconds=MOST_EVALUATION)

    def model_ran(self, output: Any) -> None:
        """It has ended."""
        if self.watches_failures:
            self._failing.model_ran(output)

    def backward_begins(self, losses: list[torch.Tensor]) -> None:
        """`losses` are about to be derived."""
        step = self._step
        self._relations.backward_begins(step, losses)
        if step is not None:
            if step.mode.lane is not None:
                step.mode.lane.backward_begins(losses)
            step.backward_begins(losses)
            self._failing.remember(losses, step.site_of)
        elif self.watches_failures:
            self._failing.backward_begins(losses)

    def loss_scaled(self, scaler: Any, scaled: list[torch.Tensor]) -> None:
        """A scaler has multiplied a loss."""
        self._scale_tests.scaled(self._step, scaler, scaled)

    def optimizer_begins(self, optimizer: Any, parameters: list[tuple[str, torch.Tensor]]) -> None:
        """`optimizer` is about to use the gradients of its `parameters`."""
        self._relations.optimizer_begins(self._step, optimizer)
        if self._step is not None:
            if getattr(optimizer, "grad_scale", None) is None:  # else it divides them itself
                self._scale_tests.optimizer_begins(self._step, parameters)
            self._step.gradients(parameters)
            self._step.places.in_optimizer = True

    def closure_begins(self) -> None:
        """An optimizer calls the model."""
        if self._step is not None:
            self._step.places.in_optimizer = False

    def closure_ended(self) -> None:
        """The optimizer goes on, and not for the first time in its step."""
        if self._step is not None:
            self._step.places.in_optimizer = True

    def gradients_broke(self) -> None:
        """An optimizer is about to use gradients that are not finite, in a step without shadow."""
        self._failing.gradients_broke()

    def module_broke(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        """An output that is not finite."""
        if self.watches_failures:
            self._failing.module_broke(module, args, kwargs, output)

    def skipped(self, parameters: list[tuple[str, torch.Tensor]], scale: float) -> None:
        """A scaler did not let the optimizer step. Infinities of the backward pass at a scale that
        is given up are no finding; what no scale would cure is one.
        """
        if self._step is not None:
            self._step.gradients(parameters, scale=scale)
        elif self.watches_failures and self._failing.skipped(scale):
            self._schedule.drift(self._count)

    def updated(self, scale: float) -> None:
        """A scaler has let the optimizer step."""
        self._failing.updated(scale)

    def optimizer_ended(self, optimizer: Any, site: Site | None) -> None:
        """It has stepped; `site`: where that was called."""
        self._relations.optimizer_ended(optimizer)
        self._divergence.optimizer_ended(site)
        if self._step is not None:
            self._step.places.in_optimizer = False
            self._step.places.stepped = True

    def over(self) -> None:
        """The training step is over, but for what follows until the next one begins."""
        self._over = True
        self._ran = False
        self._failing.forget()
        if self._step is None or self._schedule.eager or not self._has_modules:
            self._boundary()  # the next one's data are made from here on

    def interrupted(self) -> bool:
        """A mode of the program comes between it and the shadow, which is given up for this step
        unless that is over; whether there was one.
        """
        step = self._step
        if step is None or not self._stack.holds(step.mode):  # another thread's
            return False
        if self._over:
            self._end()
        else:
            self._step = None
            self._stack.remove(step.mode)
            step.mode.end()
            seconds = step.started.seconds()
            self._schedule.shadowed(self._count, seconds, step.mode.seconds)
        self._began = Stopwatch()
        return True

    def error(self) -> None:
        """A new ERROR alert."""
        self._schedule.error()

    def broke(self, step: int) -> None:
        """Something was not finite in `step`."""
        if self._severities.onset is None:
            self._severities.onset = step

    def drift(self) -> None:
        """Something drifts."""
        self._schedule.drift(self._count)

    def close(self) -> None:
        """The run ends."""
        self._end()
        self.forget()

    def forget(self) -> None:
        """Nothing more; what was not reported is lost."""
        self._on = False
        self._step = None
        self._failing.forget()

    # --- shadow steps ---

    def _boundary(self) -> None:
        """One training step is over and the next one begins."""
        if not self._over:
            return
        self._over = False
        if self._step is not None:
            self._end()
        else:
            self._schedule.plain(self._began.seconds())
        self._count += 1
        self._number += 1
        self._changes.kept.started = True
        self._evaluated = False
        self._failing.begins()
        self._began = Stopwatch()
        self._begin(self._schedule.why(self._count))

    def _know(self) -> None:
        model = self._model()
        if model is None:
            return
        self._modules.update((id(each), name) for name, each in model.named_modules())
        for name, held in (*model.named_parameters(), *model.named_buffers()):
            tensor = local_part(held)
            if not is_lazy(tensor) and is_float(tensor) and plain(tensor) is tensor:
                self._names[tensor.untyped_storage()._cdata] = name

    def _make(self) -> ShadowStep:
        self._know()
        made = self._made()
        if self._schedule.replays:
            made.mode.replay = Replay(allowance(), rank_of_process())
        return made

    def _made(self) -> ShadowStep:
        return ShadowStep(
            self._number,
            self._modules,
            self._changes,
            self._first_loss,
            self._trouble,
            allowance(),
        )

    def _begin(self, why: str) -> None:
        if not why or not self._on:
            return
        most_bytes = allowance()
        if most_bytes <= 0:
            self._on = False  # after one refusal it stays off
            self._sink.refused("there is not enough free memory")
            return
        step = self._make()
        step.mode.limit(seconds=self._schedule.most_seconds())
        self._sink.begins(step, most_bytes)
        if not self._stack.push(step.mode):
            self._on = self._stack.usable()
            return
        self._relations.begins(step)
        self._scale_tests.begins(step)
        self._step, self._why = step, why
        self._thread = threading.get_ident()

    def _end(self) -> None:
        step, self._step = self._step, None
        if step is None:
            return
        if self._thread != threading.get_ident():
            self._give_up(step)  # its thread may be in the middle of an operator
            return
        self._stack.remove(step.mode)
        ended_early = not step.mode.looking
        found = step.finish(self._states())
        if self._first_loss is None and step.loss is not None and math.isfinite(step.loss):
            self._first_loss = step.loss
        self._divergence.began(step.mode.tape.magnitudes())
        self._severities.shadow_steps += 1
        seconds, cost = step.started.seconds(), step.mode.seconds
        plain = self._schedule.plain_seconds
        if plain is not None and self._why != "evaluation":  # also what the modes cost torch itself
            cost = max(cost, seconds - plain)
        self._schedule.shadowed(self._count, seconds, cost, ended_early)
        self._sink.shadowed(step, self._why, step.started.seconds())
        self._report(found)
        if step.mode.replay is not None:
            self._sink.found(self._number, step.mode.replay.found)
        # Faults of protocol: the arithmetic of later steps is looked at all the same.
        if not ended_early:
            found = self._relations.found(step) + self._scale_tests.found(step)
            found += self._changes.plateaus.found()
            if self._changes.plateaus.wants:
                self._changes.plateaus.wants = False
                self._schedule.drift(self._count)
            self._sink.found(self._number, found)

    def _ran_again(self, shadow: ShadowStep | None, found: list[Finding]) -> None:
        if shadow is not None:
            self._sink.shadowed(shadow, "rerun", shadow.started.seconds())
        self._report(found)

    def _report(self, found: list[Finding]) -> None:
        self._severities.settle(found, self._number, self._count)
        diverged = self._divergence.find(found)
        self._sink.found(self._number, found if diverged is None else [diverged, *found])
