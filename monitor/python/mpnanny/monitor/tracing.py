"""When operators are traced: in the steps after an ERROR, while they last, and never longer."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from torch import nn

from ..base.alerts import NewAlert
from ..model.selection import Watched
from ..operators.late_trace import LateTrace
from ..operators.modes import ModeStack
from ..operators.origins import reported
from ..operators.trace import OperatorTrace
from ..steps.context import RunContext
from ..steps.late_steps import DeviceSteps
from ..steps.listeners import StepListener
from ..steps.modes import StepModes
from ..steps.step import OpenStep

# A step that takes longer than this is one that was left by an exception.
STEP_SECONDS, STEP_TIMES = 10.0, 20.0


class Tracing(StepListener):
    """Makes the mode of a step that is traced, and reports to the core what it has found."""

    name = "the trace of operators"

    def __init__(
        self,
        run: RunContext,
        say: Callable[[str], None],
        device: DeviceSteps,
        stack: ModeStack,
        modes: StepModes,
        dense_steps: int,
    ) -> None:
        self._core = run.core
        self._state = run.state
        self._model = run.model
        self._names = run.names
        self._record = run.record
        self._notes = run.notes
        self._say = say
        self._device = device
        self._stack = stack
        self._modes = modes
        self._dense_steps = dense_steps
        self._left = 0  # steps still to trace
        self._asked = 0  # steps in which the core may say that an origin explains an alert
        self._mode: OperatorTrace | None = None  # of the open step
        self._module_names: dict[int, str] = {}
        self._layers: set[int] = set()  # rows of operators
        self._seconds = 0.0  # of the last step
        self._steps = self._operators = self._found = 0
        self._first = -1

    # --- the step under way ---

    def step_begins(self, step: OpenStep) -> None:
        if not self._left:
            return
        self._left -= 1
        why = self._stack.unusable()
        if why:
            self._left = 0
            self._refused(why)
            return
        if not self._module_names:
            modules = self._model.module.named_modules()
            self._module_names = {id(each): name for name, each in modules}
        arguments = (
            self._module_names,
            self._record,
            lambda error: self._notes.trouble(self.name, error),
            self._notes.note,
            self._refused,
            time.perf_counter() + max(STEP_SECONDS, STEP_TIMES * self._seconds),
        )
        if self._state.on_device:
            self._mode = LateTrace(*arguments, ask=self._device.ends_of)
            self._state.gather = self._device.blaming(self._mode.blame)
        else:
            self._mode = OperatorTrace(*arguments)
        self._steps += 1
        if self._first < 0:
            self._first = step.number
        self._modes.use(self._mode, step)

    def _refused(self, why: str) -> None:
        self._notes.note(f"operators are not traced: {why}")

    def _blame(self, value: Any) -> None:
        """`value` may be what an alert is about: the output of a module that broke, the loss."""
        if self._mode is not None:
            self._mode.blame(value)

    def module_broke(
        self, layer: int, module: nn.Module, args: Any, kwargs: Any, output: Any, first: bool
    ) -> None:
        self._blame(output)

    def loss_scaled(self, step: OpenStep, scaler: Any, outputs: Any, scaled: Any) -> None:
        self._blame(outputs)

    def backward_begins(self, step: OpenStep, losses: Any) -> None:
        self._blame(losses)

    def optimizer_begins(
        self, step: OpenStep, optimizer: Any, held: Watched, closure: bool
    ) -> None:
        if self._mode is not None:
            self._mode.in_optimizer = not closure
            self._mode.blame([each.grad for each in self._model.parameters.parameters])

    def optimizer_ended(self, step: OpenStep, optimizer: Any, held: Watched) -> None:
        if self._mode is not None:
            self._mode.in_optimizer = False

    # --- its end ---

    def step_ends(self, step: OpenStep) -> None:
        """What was found goes to the core, before the step does."""
        self._seconds = time.perf_counter() - step.started
        mode, self._mode = self._mode, None
        if mode is None:
            return
        self._operators += mode.operators
        last = not self._left
        mode.blame(self._model.parameters.parameters)
        if isinstance(mode, LateTrace):
            self._device.also(lambda _: self._report_late(mode, last))
        else:
            self._report(mode, last)

    def _report_late(self, mode: LateTrace, last: bool) -> None:
        try:
            mode.resolve()
            self._report(mode, last)
        except Exception as error:
            self._notes.trouble(self.name, error)

    def _report(self, mode: OperatorTrace, last: bool) -> None:
        chosen = reported(mode.origins, mode.blamed)
        if chosen is not None:
            origin, text, facts = chosen
            self._found += 1
            module = None if origin.module is None else self._names.find(origin.module)
            layer = self._core.nan_origin(
                origin.phase,
                origin.name,
                origin.source,
                module,
                origin.nan,
                origin.count,
                text,
                facts,
            )
            self._names.add_operator(layer, origin.name)
            self._layers.add(layer)
            self._asked = 2  # what an optimizer writes is used in the next step
        if last and not self._left:
            self._sum_up()

    def step_ended(self, step: OpenStep, alerts: list[NewAlert]) -> None:
        """Says what of the trace went into an alert that was there before."""
        if self._asked:
            self._asked -= 1
            explained = self._core.explained()
            if explained:
                self._say(f"the operator behind {explained}")

    def errors_raised(self, alerts: Sequence[NewAlert]) -> None:
        """The following steps are dense. What a trace or a shadow step has found does not count."""
        if any(not alert.of_shadow and alert.layer not in self._layers for alert in alerts):
            self.trace_next()

    def trace_next(self) -> None:
        """The next `dense_steps` steps are traced."""
        self._left = self._dense_steps

    # --- the run's end ---

    def run_ends(self) -> None:
        self._mode, self._left = None, 0
        self._sum_up()

    def forked(self) -> None:
        self._mode, self._left = None, 0

    def _sum_up(self) -> None:
        """Says what the trace was worth: one event for each time it was on."""
        if not self._steps:
            return
        detail = (
            f'{{"first_step": {self._first}, "steps": {self._steps},'
            f' "operators": {self._operators}, "steps_with_an_origin": {self._found}}}'
        )
        self._core.event(self._state.number, "operators_traced", detail)
        self._steps = self._operators = self._found = 0
        self._first = -1
