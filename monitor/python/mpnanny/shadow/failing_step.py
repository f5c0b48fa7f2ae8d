"""A step without shadow whose first bad value has been seen: what made it runs again, at once,
under a shadow.

Of a module whose output is bad the forward pass, on copies; of a bad loss its graph; of bad
gradients the backward pass of the loss, or both passes of the model from the gradient that reached
its output. What that takes is kept from each plain step until its end: aliases, and what autograd
has kept of a small loss.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ..fp64.call import floats
from ..fp64.findings import Finding
from ..fp64.history import is_clean, is_float
from ..fp64.places import Site, find_call
from ..fp64.uncertainty import Uncertainty
from ..operators.places import Place
from .copies import NotAgain
from .graph import LossGraph
from .loss_backward import LossBackward
from .rerun import copied, untouched, without_cast_cache
from .step import ShadowStep

MOST_GRADIENT = 16 << 20  # bytes of the model's output gradient that are kept for a rerun
MOST_RERUNS = 3
LONG_SEARCH = 4  # steps skipped in a row at scales that have not worked yet
MOST_OF_SKIPS = 6  # steps that a loss scaler has skipped, which are run again


def run_again(module: nn.Module, inputs: tuple[Any, Any]) -> Any:
    """Under this name operators are those of the program (operators/places.py)."""
    return module.forward(*inputs[0], **inputs[1])


class FailingStep:
    """Of one run. `make()`: a shadow for what runs again; `push`, `remove`: put it on torch's stack
    of modes; `show(shadow, findings)`: takes what was found, the shadow is None where none ran;
    `can_pay(seconds)`: whether a plain step may cost so much more.
    """

    def __init__(
        self,
        model: Callable[[], nn.Module | None],
        modules: dict[int, str],
        make: Callable[[], ShadowStep],
        push: Callable[[Any], bool],
        remove: Callable[[Any], None],
        show: Callable[[ShadowStep | None, list[Finding]], None],
        can_pay: Callable[[float], bool],
        trouble: Callable[[Exception], None],
    ) -> None:
        self._model = model
        self._modules = modules
        self._make = make
        self._push = push
        self._remove = remove
        self._show = show
        self._can_pay = can_pay
        self._trouble = trouble
        self._seen = False  # the step's first bad value was
        self._reruns = 0
        self._of_skips = 0
        self._in_a_row = 0  # skipped steps
        self._worked = 0.0  # the largest loss scale of an update
        self._graph = LossGraph()
        self._loss_backward = LossBackward()
        self._inputs: tuple[Any, Any] | None = None
        self._batch: set[int] = set()  # the memory of what the model was given in the step
        self._generator: torch.Tensor | None = None
        self._autocast: tuple[bool, torch.dtype] | None = None
        self._output: torch.Tensor | None = None
        self._output_gradient: torch.Tensor | None = None

    @property
    def watches(self) -> bool:
        """Whether a failure now would be looked at."""
        return not self._seen and self._reruns < MOST_RERUNS

    # --- what happens in the step ---

    def begins(self) -> None:
        self._seen = False
        self._batch.clear()

    def remember(self, losses: list[torch.Tensor], site_of: Callable[[int], Site | None]) -> None:
        """Of a shadow step: where the operators of its loss stand."""
        self._graph.remember(losses, site_of)

    def model_runs(self, args: Any, kwargs: Any, device: str) -> None:
        self._inputs = (args, kwargs)
        self._batch.update(each.untyped_storage()._cdata for each in floats(self._inputs))
        self._generator = torch.get_rng_state()
        self._autocast = (torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))
        self._output_gradient = None

    def model_ran(self, output: Any) -> None:
        if self._inputs is None or not is_float(output):
            return
        self._output = output
        size = output.numel() * output.element_size()
        if output.grad_fn is not None and size <= MOST_GRADIENT:
            failing = weakref.ref(self)

            def keep(gradient: torch.Tensor) -> None:
                owner = failing()
                if owner is not None and owner._inputs is not None:
                    owner._output_gradient = gradient

            output.register_hook(keep)

    def backward_begins(self, losses: list[torch.Tensor]) -> None:
        """`losses` are about to be derived."""
        output, self._output = self._output, None
        on_host = [each for each in losses if is_float(each) and each.device.type == "cpu"]
        bad = [each for each in on_host if not bool(each.isfinite().all())]
        if bad:
            self._seen = True
            self._reruns += 1
            exact = None if output is None else self._exact(output)
            found = self._graph.find(bad, output, exact, self._uncertainty())
            if found is not None:
                self._show(None, [found])
        elif on_host and self._can_pay(self._loss_backward.seconds):
            self._loss_backward.keep(on_host, output)

    def gradients_broke(self) -> None:
        """An optimizer is about to use gradients that are not finite."""
        self._seen = True
        if not self._rerun_loss():
            self._rerun_backward()

    def updated(self, scale: float) -> None:
        """A loss scaler has let an optimizer step."""
        self._in_a_row = 0
        self._worked = max(self._worked, scale)

    def skipped(self, scale: float) -> bool:
        """A loss scaler has not, since a gradient was not finite: whether that is more than the
        search for a scale. What is infinite at any scale is looked for then.
        """
        self._in_a_row += 1
        is_search = scale > self._worked and self._in_a_row < LONG_SEARCH
        if is_search or self._in_a_row & (self._in_a_row - 1) != 0:  # the first, second, fourth …
            return False
        if self._of_skips < MOST_OF_SKIPS:
            self._of_skips += 1
            if not self._rerun_loss(scale):
                self._rerun_backward(scale)
        return True

    def forget(self) -> None:
        """What was kept of the step."""
        self._inputs = self._output = self._output_gradient = None
        self._loss_backward.forget()

    def module_broke(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        """An output is not finite."""
        given = list(floats((args, kwargs)))
        if not all(map(is_clean, given)):
            return  # what went in was bad: the module around this one is still to come
        self._seen = True
        self._reruns += 1
        device = next((each.device.type for each in floats(output)), "cpu")
        if module is not self._model() and not all(bool(each.isfinite().all()) for each in given):
            if self._rerun_model(device):
                return
        shadow = self._make()
        if module is not self._model():
            shadow.mode.uncertainty.batch = set()  # what comes in was made in this step
        shadow.places.outer = find_call(module, self._modules)

        # The whole model draws again what it drew; of a part of it that is not known.
        generator = self._generator if module is self._model() else None

        def run_again() -> None:
            if generator is not None:
                torch.set_rng_state(generator)
            own = copied((args, kwargs))
            if module is self._model():
                shadow.mode.uncertainty.draws(floats(own))  # the batch
            with torch.no_grad(), without_cast_cache(device):
                result = module.forward(*own[0], **own[1])
            shadow.reach_outputs(result)

        self._rerun(module, shadow, run_again)

    def _rerun_model(self, device: str) -> bool:
        """A module inside the model was given the -inf of a mask: what that is in FP64, where it is
        made, tells the model's whole forward pass.
        """
        model, inputs, autocast = self._model(), self._inputs, self._autocast
        if model is None or inputs is None or autocast is None:
            return False
        shadow = self._make()
        shadow.places.outer = find_call(model, self._modules)

        def again() -> None:
            made = self._forward_again(device, model, inputs, autocast, shadow.mode.uncertainty)
            shadow.reach_outputs(made)

        return self._rerun(model, shadow, again)

    # --- what runs again ---

    def _rerun(
        self,
        module: nn.Module,
        shadow: ShadowStep,
        again: Callable[[], None],
        scale: float | None = None,
    ) -> bool:
        """Whether it showed something. `scale`: of a step that a loss scaler has skipped."""
        if scale is not None:
            shadow.is_skipped_at(scale)
        if not self._run_again(module, shadow, again):
            return False
        found = [each for each in shadow.finish(()) if each.reach]
        self._show(shadow, found)
        return bool(found)

    def _run_again(self, module: nn.Module, shadow: ShadowStep, again: Callable[[], None]) -> bool:
        """Whether it could."""
        try:
            with untouched(module) as own_memory_only:
                uncertainty = shadow.mode.uncertainty
                if uncertainty.batch is not None and not uncertainty.kept.narrow:
                    uncertainty.batch = uncertainty.batch | own_memory_only.copied
                try:
                    if not (self._push(shadow.mode) and self._push(own_memory_only)):
                        return False
                    again()
                finally:
                    self._remove(own_memory_only)
                    self._remove(shadow.mode)
            return True
        except NotAgain:
            return False
        except Exception as error:
            self._trouble(error)
            return False

    def _forward_again(
        self,
        device: str,
        model: nn.Module,
        inputs: tuple[Any, Any],
        autocast: tuple[bool, torch.dtype],
        batch: Uncertainty,
    ) -> Any:
        """The model's forward pass with the numbers and the autocast that it had in the step."""
        if self._generator is not None:
            torch.set_rng_state(self._generator)
        with (
            torch.no_grad(),
            torch.autocast(device, dtype=autocast[1], enabled=autocast[0], cache_enabled=False),
        ):
            own = copied(inputs)
            batch.draws(floats(own))
            return run_again(model, own)

    def _output_again(self, output: torch.Tensor, batch: Uncertainty) -> torch.Tensor | None:
        """What the model gives once more, under a shadow; None if that is something else."""
        model, inputs, autocast = self._model(), self._inputs, self._autocast
        if model is None or inputs is None or autocast is None:
            return None
        made = self._forward_again(output.device.type, model, inputs, autocast, batch)
        is_same = is_float(made) and made.dtype is output.dtype and torch.equal(made, output)
        return made if is_same else None

    def _exact(self, output: torch.Tensor) -> torch.Tensor | None:
        """The model's output in FP64, where that can be computed of what it was given."""
        model, found = self._model(), None
        if model is None:
            return None
        shadow = self._make()

        def again() -> None:
            nonlocal found
            made = self._output_again(output, shadow.mode.uncertainty)
            entry = None if made is None else shadow.mode.references.entry(made)
            reference = None if made is None else shadow.mode.references.of(made)
            if entry is not None and reference is not None and not entry.doubt:
                found = reference.clone()

        shadow.places.outer = Place("", "", 0, "")
        self._run_again(model, shadow, again)
        shadow.mode.end()
        return found

    def _uncertainty(self) -> Uncertainty:
        """Of the step under way, which had no shadow."""
        uncertainty = self._make().mode.uncertainty
        uncertainty.batch = self._batch
        return uncertainty

    def _rerun_loss(self, scale: float | None = None) -> bool:
        """Forward and loss were finite, gradients are not: whether the loss's own backward pass has
        made them so.
        """
        model = self._model()
        if model is None:
            return False
        shadow = self._make()
        uncertainty = shadow.mode.uncertainty
        uncertainty.batch = self._batch
        output = self._loss_backward.output

        def place(node: Place) -> None:
            shadow.places.outer = node

        def again() -> None:
            shadow.places.outer = Place("", "", 0, "")
            once_more = None if output is None else self._output_again(output, uncertainty)
            self._loss_backward.run(
                self._graph.sites,
                place,
                lambda each: shadow.reach_gradients([("", each)]),
                once_more,
            )

        return self._rerun(model, shadow, again, scale)

    def _rerun_backward(self, scale: float | None = None) -> None:
        """Forward and loss were finite, gradients are not: both passes of the model again, from the
        gradient that reached its output.
        """
        model = self._model()
        gradient, inputs, autocast = self._output_gradient, self._inputs, self._autocast
        if model is None or gradient is None or inputs is None or autocast is None:
            return
        if not bool(gradient.isfinite().all()):
            return  # what broke it came after the model
        if scale is None:
            self._reruns += 1
        shadow = self._make()
        shadow.mode.uncertainty.batch = self._batch
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
        self._rerun(model, shadow, run_again, scale)
