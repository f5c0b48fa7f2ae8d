"""What happens in a run, as its parts hear it. Everything that is called when a step begins, an
optimizer steps or a module breaks is a StepListener, registered with the one StepListeners of the
run; nobody else calls them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch import nn

from ..base.alerts import NewAlert
from ..model.selection import Watched
from .step import OpenStep


class StepListener:
    """A part of a run. Every event does nothing here; a part overrides those that it wants.

    Events come in the thread that has the step (thread.py), in the order of the training, and only
    of the model that is watched; run_ends() may come in any thread. Whatever an event raises is
    noted under `name` and stays in the monitor.
    """

    name = "a part of the monitor"

    def watch_begins(self) -> None:
        """Everything listens; no step has begun."""

    def step_begins(self, step: OpenStep) -> None:
        """The core has begun `step`; RunState tells whether it is sampled, or on a device."""

    def step_moved(self, step: OpenStep) -> None:
        """`step` goes on in another thread, the one that calls: what was put on the stack of the
        thread before is still there, and what that one looks at there is not read any more.
        """

    def model_runs(self, model: nn.Module, args: Any, kwargs: Any) -> None:
        """The whole model is about to run in training: in a step, unless blocks mark the steps and
        it runs between two of them.
        """

    def model_evaluates(self) -> None:
        """The whole model is about to run in an evaluation."""

    def model_ran(self, output: Any, failed: bool) -> None:
        """Its forward pass has ended, in training or not; `failed`: with an exception."""

    def module_broke(
        self, layer: int, module: nn.Module, args: Any, kwargs: Any, output: Any, first: bool
    ) -> None:
        """The output of a watched module is not finite, and it may be the origin: its inputs were
        clean, or nothing was known to be bad before. `first`: of this step. Not on a device.
        """

    def loss_scaled(self, step: OpenStep, scaler: Any, outputs: Any, scaled: Any) -> None:
        """scaler.scale(outputs) has returned `scaled`."""

    def scaler_used(self, step: OpenStep, scaler: Any) -> None:
        """`scaler` has scaled a loss of this step, or is about to step an optimizer."""

    def backward_begins(self, step: OpenStep, losses: Any) -> None:
        """backward() was called on `losses` (a tensor or several) and has not begun."""

    def backward_ended(self, step: OpenStep) -> None:
        """A backward pass has ended, with an exception or not."""

    def gradients_unscaled(self, step: OpenStep, scaler: Any, optimizer: Any) -> None:
        """scaler.unscale_(optimizer) has returned."""

    def gradients_clipped(
        self, step: OpenStep, parameters: Any, max_norm: Any, total_norm: Any
    ) -> None:
        """Gradients are about to be scaled down from `total_norm` to `max_norm`."""

    def gradients_read(self, step: OpenStep, bad: bool) -> None:
        """Gradients were read, whole and not yet clipped: once a parameter and step. `bad`: one of
        the step's is not finite; of those on a device that is not known.
        """

    def scaler_steps(self, step: OpenStep, scaler: Any, optimizer: Any) -> None:
        """scaler.step(optimizer) was called and has not begun."""

    def optimizer_begins(
        self, step: OpenStep, optimizer: Any, held: Watched, closure: bool
    ) -> None:
        """`optimizer`, which holds the watched parameters `held`, is about to step; `closure`: the
        model runs inside of it. A step that a scaler skips does not come here.
        """

    def closure_begins(self, step: OpenStep, optimizer: Any, held: Watched) -> None:
        """`optimizer` calls the closure that it was given; LBFGS does so many times in a step."""

    def closure_ended(self, step: OpenStep, optimizer: Any, held: Watched) -> None:
        """The closure has returned: the gradients are there and were not used yet."""

    def optimizer_ended(self, step: OpenStep, optimizer: Any, held: Watched) -> None:
        """It has stepped."""

    def scaler_stepped(self, step: OpenStep, scaler: Any, optimizer: Any, skipped: Any) -> None:
        """scaler.step(optimizer) has returned. `skipped`: whether it left the optimizer's step
        out; a Later of a fused optimizer on a device.
        """

    def scale_updated(self, step: OpenStep, scaler: Any) -> None:
        """scaler.update() has returned."""

    def state_loaded(self, what: str) -> None:
        """`what` (model, optimizer or scaler) took a state dict."""

    def state_saved(self, content: Any) -> None:
        """torch.save() was called with `content`, and has written nothing yet."""

    def compile_begins(self) -> None:
        """torch.compile() was called: what it makes must be made as without a monitor."""

    def mode_enters(self, mode: Any) -> None:
        """The program is about to put a dispatch mode of its own on this thread's stack."""

    def block_left(self, step: OpenStep) -> None:
        """The block of `step` has ended; its optimizer may still follow."""

    def step_ends(self, step: OpenStep) -> None:
        """`step` is over; the core has not ended it yet and takes what belongs to it."""

    def step_ended(self, step: OpenStep, alerts: list[NewAlert]) -> None:
        """The core has ended `step`, of a device some steps later. `alerts`: what it has raised; a
        part may add to their messages before people see them.
        """

    def errors_raised(self, alerts: Sequence[NewAlert]) -> None:
        """Those of them that are ERRORs, if there are any. Follows step_ended()."""

    def run_ends(self) -> None:
        """No further step comes. The core still takes events and rows."""

    def forked(self) -> None:
        """This is a forked child, which must not touch what its parent has."""


EVENTS = tuple(
    name for name, value in vars(StepListener).items() if callable(value) and name[0] != "_"
)


class StepListeners(StepListener):
    """All parts of a run as one listener: each event goes to the parts that have it, in the order
    in which they were added. `trouble(where, error)` hears of what a part raises.
    """

    def __init__(self, trouble: Callable[[str, Exception], None]) -> None:
        self._trouble = trouble
        self._heard: dict[str, list[tuple[Callable[..., None], str]]] = {}
        for event in EVENTS:
            heard = self._heard[event] = []
            setattr(self, event, partial(self._call, heard))

    def add(self, *parts: StepListener) -> None:
        for part in parts:
            for event in EVENTS:
                if getattr(type(part), event) is not getattr(StepListener, event):
                    self._heard[event].append((getattr(part, event), part.name))

    def _call(self, heard: list[tuple[Callable[..., None], str]], *args: Any) -> None:
        for call, name in heard:
            try:
                call(*args)
            except Exception as error:
                self._trouble(name, error)
