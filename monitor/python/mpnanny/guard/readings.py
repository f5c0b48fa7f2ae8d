"""What every module's operators make in one step, and how large its gradients are: read together at
the end of the step. Hooks and the dispatch mode are there in such a step only, and only look.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from ..operators.as_called import run_as_called
from ..operators.modes import ModeStack, StepMode
from ..operators.places import pass_through

pass_through(__file__)

_LOW = (torch.float16, torch.bfloat16)


@dataclass(slots=True)
class Reading:
    """Of one module, largest magnitudes (inf: not finite; 0: nothing was there). `results`: of its
    own operators' results; `low`: of those in 16 bits, `low_operator` made it. `bad_at`: the place,
    in the order of the step, of its first operator whose result is not finite. Gradients: of its
    results, of what it was given, of its own parameters.
    """

    name: str
    inputs: float = 0.0
    results: float = 0.0
    low: float = 0.0
    low_operator: str = ""
    bad_at: int | None = None
    bad_operator: str = ""
    output_gradients: float = 0.0
    input_gradients: float = 0.0
    parameter_gradients: float = 0.0


# Sets a figure that was not known before the end of the step.
_Set = Callable[[float], None]


def _floats(values: Any) -> Iterator[torch.Tensor]:
    for each in tree_leaves(values):
        if isinstance(each, torch.Tensor) and each.is_floating_point() and each.numel():
            yield each


class _Operators(StepMode):
    """Hands the results of all operators of the forward pass on."""

    supports_higher_order_operators = True

    def __init__(self, note: Callable[[str, torch.Tensor], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._note = note

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = run_as_called(func, args, kwargs or {})
        if self.looking and torch._C._current_graph_task_id() == -1:
            if not getattr(func, "is_view", False):
                self.looking = False
                try:
                    for each in _floats(result):
                        self._note(str(func), each)
                finally:
                    self.looking = True
        return result


class Look:
    """Follows one step from its construction to `end()`. `autocast`: the dtype that autocast has
    had in it, None where it never was on.
    """

    def __init__(self, model: nn.Module, device_type: str) -> None:
        self.autocast: torch.dtype | None = None
        self._names = {id(each): name for name, each in model.named_modules()}
        self._modules = dict(model.named_modules())
        self._readings: dict[str, Reading] = {}
        self._ended: list[Reading] = []  # in the order in which modules end
        self._figures: list[tuple[torch.Tensor, _Set]] = []  # on the device
        self._device_type = device_type
        self._open: list[Reading] = []
        self._operators = 0
        self._handles: list[Any] = []
        for each in model.modules():
            self._handles += [
                each.register_forward_pre_hook(self._enter, with_kwargs=True),
                each.register_forward_hook(self._leave, with_kwargs=True, always_call=True),
            ]
        self._stack = ModeStack()
        self._mode = _Operators(self._note_operator)
        self._stack.push(self._mode)

    def _later(self, tensor: torch.Tensor, use: _Set) -> None:
        least, most = torch.aminmax(tensor.detach())  # faster than abs().amax(); NaN stays NaN
        self._figures.append((torch.maximum(-least, most).float(), use))

    def _enter(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        name = self._names.get(id(module), "")
        reading = self._readings.setdefault(name, Reading(name))
        self._open.append(reading)
        if torch.is_autocast_enabled(self._device_type):
            self.autocast = torch.get_autocast_dtype(self._device_type)

        def note(value: float) -> None:
            reading.inputs = max(reading.inputs, value)

        self._mode.looking = False
        for each in _floats((args, kwargs)):
            self._later(each, note)
            self._follow_gradient(each, reading, "input_gradients")
        self._mode.looking = True

    def _leave(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        if not self._open:
            return
        reading = self._open.pop()
        if reading not in self._ended:
            self._ended.append(reading)
        for each in _floats(output):
            self._follow_gradient(each, reading, "output_gradients")

    def _note_operator(self, name: str, result: torch.Tensor) -> None:
        if not self._open:
            return
        reading, is_low = self._open[-1], result.dtype in _LOW
        self._operators += 1
        at = self._operators

        def note(value: float) -> None:
            reading.results = max(reading.results, value)
            if math.isinf(value):
                if reading.bad_at is None or at < reading.bad_at:
                    reading.bad_at, reading.bad_operator = at, name
            elif is_low and value > reading.low:
                reading.low, reading.low_operator = value, name

        self._later(result, note)

    def _follow_gradient(self, tensor: torch.Tensor, reading: Reading, which: str) -> None:
        if tensor.grad_fn is None:
            return

        def set_figure(value: float) -> None:
            setattr(reading, which, max(getattr(reading, which), value))

        self._handles.append(
            tensor.register_hook(lambda gradient: self._later(gradient, set_figure))
        )

    def end(self) -> list[Reading]:
        """Takes hooks and mode away and reads; one wait for the device. Children before parents."""
        self._mode.looking = False
        self._stack.remove(self._mode)
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        for reading in self._ended:
            for parameter in self._modules[reading.name].parameters(recurse=False):
                if parameter.grad is not None and parameter.grad.numel():

                    def note(value: float, reading: Reading = reading) -> None:
                        reading.parameter_gradients = max(reading.parameter_gradients, value)

                    self._later(parameter.grad, note)
        if self._figures:
            values = torch.stack([figure.reshape(()) for figure, _ in self._figures]).tolist()
            for (_, use), value in zip(self._figures, values, strict=True):
                use(value if math.isfinite(value) else math.inf)
        return self._ended
