"""The shadow steps of one run: when they begin and end, what is asked of a step that fails without
one, and what all of them found.

Hears of the training through the methods below, in the order in which things happen; knows nothing
of files. Nothing here changes the training: the engine only looks, a failing step's forward pass is
run again on copies (rerun).
"""

from __future__ import annotations

import math
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from ..operators.places import Place
from .call import floats
from .changes import Changes
from .divergence import Divergence
from .findings import EXCLUDED, Finding
from .graph import LossGraph
from .history import is_clean, is_float
from .loss_backward import LossBackward
from .memory import allowance
from .places import Site, find_call
from .prelude import Prelude
from .rerun import copied, untouched, without_cast_cache
from .schedule import Schedule
from .step import ShadowStep
from .weights import has_optimizer

MOST_GRADIENT = 16 << 20  # bytes of the model's output gradient that are kept for a rerun
MOST_RERUNS = 3
MOST_EVALUATION = 1.0  # seconds of its own that the shadow of an evaluation may take


class Stack(Protocol):
    """Torch's stack of dispatch modes."""

    def push(self, mode: Any) -> bool: ...
    def remove(self, mode: Any) -> None: ...


class Sink(Protocol):
    """Takes what was found."""

    def shadowed(self, step: ShadowStep, why: str, seconds: float) -> None: ...
    def found(self, step: int, findings: list[Finding]) -> None: ...
    def refused(self, why: str) -> None: ...


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
        self._graph = LossGraph()
        self._loss_backward = LossBackward()
        # The training step under way.
        self._step: ShadowStep | None = None
        self._why = ""
        self._count = 0  # training steps so far
        self._number = 0  # the step's number
        self._over = False  # it has ended; what follows until the model runs belongs to it
        self._backwards = 0  # of the step
        self._failed = False  # the step's first bad value was seen
        self._evaluated = False  # the model was evaluated after the last step
        self._began = time.perf_counter()
        # What a failing step is run again with.
        self._reruns = 0
        self._inputs: tuple[Any, Any] | None = None
        self._generator: torch.Tensor | None = None
        self._autocast: tuple[bool, torch.dtype] | None = None
        self._output: torch.Tensor | None = None
        self._output_gradient: torch.Tensor | None = None
        # The run.
        self._on = True
        self._broken = False  # an ERROR was found
        self._shadow_steps = 0
        self._recurring: Counter[Any] = Counter()  # shadow steps in which a finding was made
        self._heard_model = False
        self._optimizer = False  # one has been heard
        self._explicit = False  # steps are blocks
        self._by_hand = False  # weights are updated without an optimizer
        self._first_loss: float | None = None
        self._divergence = Divergence(self._model)

    @property
    def shadowing(self) -> bool:
        return self._step is not None

    @property
    def watches_failures(self) -> bool:
        """Whether a step that fails now would be looked at."""
        seen = self._failed or self._broken or self._reruns >= MOST_RERUNS
        return self._on and self._step is None and not seen

    # --- what happens in the training ---

    def start(self) -> None:
        """The model is there, the training begins."""
        prelude, self._prelude = self._prelude, None
        if prelude is None:
            self._begin(self._schedule.why(self._count))
        elif not prelude.hand_over():
            self._report(prelude.step.finish(()))
            self._begin(self._schedule.why(self._count))
        elif self._schedule.why(self._count):
            self._know()
            self._step, self._why = prelude.step, "first"
            self._step.started = self._began
        else:
            prelude.end()

    def begins(self, number: int, explicit: bool) -> None:
        """Training step `number` begins; `explicit`: the program says where it ends."""
        self._explicit = explicit
        self._boundary()
        if self._optimizer or not self._count:
            self._number = number
            if self._step is not None:
                self._step.number = number

    def model_runs(self, args: Any, kwargs: Any, device: str) -> None:
        """The model's forward pass begins, with gradients."""
        self._heard_model = True
        self._boundary_by_hand(1)
        if self.watches_failures:
            self._inputs = (args, kwargs)
            self._generator = torch.get_rng_state()
            self._autocast = (torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))
            self._output_gradient = None

    def model_evaluates(self) -> None:
        """The model runs in an evaluation. Its metrics may steer the training: it is looked at
        together with the step that follows.
        """
        if self._step is not None or not self._on or self._evaluated or not self._heard_model:
            return
        self._evaluated = True
        if self._schedule.evaluation(self._count):
            self._begin("evaluation")
            if self._step is not None:
                self._step.mode.limit(seconds=MOST_EVALUATION)

    def model_ran(self, output: Any) -> None:
        """It has ended."""
        if self._inputs is None or not is_float(output) or not self.watches_failures:
            return
        self._output = output
        size = output.numel() * output.element_size()
        if output.grad_fn is not None and size <= MOST_GRADIENT:
            session = weakref.ref(self)

            def keep(gradient: torch.Tensor) -> None:
                owner = session()
                if owner is not None and owner._inputs is not None:
                    owner._output_gradient = gradient

            output.register_hook(keep)

    def backward(self, losses: list[torch.Tensor]) -> None:
        """`losses` are about to be derived."""
        output, self._output = self._output, None
        if not self._heard_model:
            self._boundary_by_hand(2)
        self._backwards += 1
        step = self._step
        if step is not None:
            step.backward(losses)
            self._graph.remember(losses, step.site_of)
            return
        if not self.watches_failures:
            return
        on_host = [each for each in losses if is_float(each) and each.device.type == "cpu"]
        bad = [each for each in on_host if not bool(each.isfinite().all())]
        if bad:
            self._failed = True
            self._reruns += 1
            found = self._graph.find(bad, output)
            if found is not None:
                self._report([found])
        elif on_host and self._schedule.can_pay(self._loss_backward.seconds):
            self._loss_backward.keep(on_host, output)

    def gradients(self, parameters: list[tuple[str, torch.Tensor]]) -> None:
        """An optimizer is about to use the gradients of `parameters`."""
        if self._step is not None:
            self._step.gradients(parameters)
            self._step.places.in_optimizer = True

    def gradients_broke(self) -> None:
        """An optimizer is about to use gradients that are not finite, in a step without shadow."""
        self._failed = True
        if not self._rerun_loss():
            self._rerun_backward()

    def skipped(self, parameters: list[tuple[str, torch.Tensor]], scale: float) -> None:
        """A scaler did not let the optimizer step. Infinities of the backward pass at a scale that
        is given up are no finding; what no scale would cure is one.
        """
        self._optimizer = True
        if self._step is not None:
            self._step.gradients(parameters, scale=scale)

    def stepped(self, site: Site | None) -> None:
        """An optimizer has stepped; `site`: where it was called."""
        self._optimizer = True
        self._divergence.updated(site)
        if self._step is not None:
            self._step.places.in_optimizer = False
            self._step.places.stepped = True

    def over(self) -> None:
        """The training step is over, but for what follows until the next one begins."""
        self._over = True
        self._inputs = self._output = self._output_gradient = None
        self._loss_backward.forget()
        if self._step is None:
            self._boundary()  # the next one's data are made from here on

    def module_broke(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        """An output that is not finite, of a step without shadow."""
        if not self.watches_failures or not all(map(is_clean, floats((args, kwargs)))):
            return  # what went in was bad: the module around this one is still to come
        self._failed = True
        self._reruns += 1
        device = next((each.device.type for each in floats(output)), "cpu")
        shadow = self._make()
        shadow.places.outer = find_call(module, self._modules)

        # The whole model draws again what it drew; of a part of it that is not known.
        generator = self._generator if module is self._model() else None

        def run_again() -> None:
            if generator is not None:
                torch.set_rng_state(generator)
            with torch.no_grad(), without_cast_cache(device):
                result = module.forward(*copied(args), **copied(kwargs))
            shadow.reach_outputs(result)

        self._rerun(module, shadow, run_again)

    def error(self) -> None:
        """A new ERROR alert."""
        self._schedule.error()

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
        self._step = self._inputs = self._output = self._output_gradient = None

    # --- shadow steps ---

    def _boundary_by_hand(self, backwards: int) -> None:
        """Weights that no optimizer updates: what follows so many backward passes is another step.
        Two where no module runs, so that one of them has its forward pass before it.
        """
        if self._optimizer or self._explicit:
            return
        if self._backwards < backwards:
            return
        if not self._by_hand:
            self._by_hand = not has_optimizer(self._model())
            self._optimizer = not self._by_hand
        if self._by_hand:
            self._over = True
            self._boundary()
            self._number = self._count

    def _boundary(self) -> None:
        """One training step is over and the next one begins."""
        if not self._over:
            return
        self._over = False
        self._backwards = 0
        now = time.perf_counter()
        if self._step is not None:
            self._end()
        else:
            self._schedule.plain(now - self._began)
        self._count += 1
        self._number += 1
        self._failed = self._evaluated = False
        self._began = time.perf_counter()
        self._begin(self._schedule.why(self._count))

    def _know(self) -> None:
        model = self._model()
        if model is None:
            return
        self._modules.update((id(each), name) for name, each in model.named_modules())
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            if not is_lazy(tensor) and is_float(tensor):
                self._names[tensor.untyped_storage()._cdata] = name

    def _make(self) -> ShadowStep:
        self._know()
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
        if allowance() <= 0:
            self._on = False  # after one refusal it stays off
            self._sink.refused("there is not enough free memory")
            return
        step = self._make()
        if not self._stack.push(step.mode):
            self._on = False
            return
        self._step, self._why = step, why

    def _end(self) -> None:
        step, self._step = self._step, None
        if step is None:
            return
        self._stack.remove(step.mode)
        found = step.finish(self._states())
        if self._first_loss is None and step.loss is not None and math.isfinite(step.loss):
            self._first_loss = step.loss
        self._divergence.began(step.mode.judge.magnitudes)
        self._shadow_steps += 1
        seconds = time.perf_counter() - step.started
        self._schedule.shadowed(self._count, seconds, step.mode.seconds)
        self._sink.shadowed(step, self._why, seconds)
        self._report(found)

    def _report(self, found: list[Finding]) -> None:
        for each in found:
            if "from" in each.detail and each.precision is not EXCLUDED:
                # Weights that an earlier failure has spoilt.
                each.severity = "INFO" if self._broken else "WARNING"
            if each.severity == "WARNING" and each.only_blurs_gradients:
                self._recurring[each.key] += 1
                if self._recurring[each.key] < self._schedule.needed(self._shadow_steps):
                    each.severity = "INFO"  # sums cancel by chance now and then
        self._broken = self._broken or any(each.severity == "ERROR" for each in found)
        diverged = self._divergence.find(found)
        self._sink.found(self._number, found if diverged is None else [diverged, *found])

    # --- the failing step ---

    def _rerun(self, module: nn.Module, shadow: ShadowStep, again: Callable[[], None]) -> bool:
        """Whether it showed something."""
        try:
            with untouched(module):
                if not self._stack.push(shadow.mode):
                    return False
                try:
                    again()
                finally:
                    self._stack.remove(shadow.mode)
            found = shadow.finish(())
            self._sink.shadowed(shadow, "rerun", time.perf_counter() - shadow.started)
            found = [each for each in found if each.reach]
            self._report(found)
            return bool(found)
        except Exception as error:
            self._trouble(error)
            return False

    def _rerun_loss(self) -> bool:
        """Forward and loss were finite, gradients are not: whether the loss's own backward pass has
        made them so.
        """
        model = self._model()
        if model is None:
            return False
        shadow = self._make()

        def place(node: Place) -> None:
            shadow.places.outer = node

        def again() -> None:
            self._loss_backward.run(
                self._graph.sites, place, lambda each: shadow.reach_gradients([("", each)])
            )

        return self._rerun(model, shadow, again)

    def _rerun_backward(self) -> None:
        """Forward and loss were finite, gradients are not: both passes of the model again, from the
        gradient that reached its output.
        """
        model = self._model()
        gradient, inputs, autocast = self._output_gradient, self._inputs, self._autocast
        if model is None or gradient is None or inputs is None or autocast is None:
            return
        self._reruns += 1
        shadow = self._make()
        generator = self._generator

        def run_again() -> None:
            args, kwargs = copied(inputs[0], keep_graph=True), copied(inputs[1], keep_graph=True)
            weights = {
                name: each.detach().clone().requires_grad_(each.requires_grad)
                for name, each in model.named_parameters()
            }
            if generator is not None:
                torch.set_rng_state(generator)
            device = gradient.device.type
            with (
                torch.enable_grad(),
                torch.autocast(device, dtype=autocast[1], enabled=autocast[0], cache_enabled=False),
            ):
                output = torch.func.functional_call(model, weights, args, kwargs)
            names = [name for name, each in weights.items() if each.requires_grad]
            made = torch.autograd.grad(
                output, [weights[name] for name in names], gradient, allow_unused=True
            )
            shadow.reach_gradients(zip(names, made, strict=True))

        shadow.places.outer = Place("", "", 0, "")
        self._rerun(model, shadow, run_again)
