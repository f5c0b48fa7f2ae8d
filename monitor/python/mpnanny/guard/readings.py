"""Largest values of every module's inputs, outputs and gradients in one step, read together at its
end: hooks are there in such a step only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from ..operators.places import pass_through

pass_through(__file__)


@dataclass(slots=True)
class Reading:
    """Of one module: largest magnitudes (inf: not finite; 0: nothing was there). `low`: an output has
    a 16-bit dtype. `parameters`: the gradients of its own parameters.
    """

    name: str
    inputs: float = 0.0
    outputs: float = 0.0
    output_gradients: float = 0.0
    input_gradients: float = 0.0
    parameters: float = 0.0
    low: bool = False

    @property
    def largest(self) -> float:
        return max(self.inputs, self.outputs)


@dataclass(slots=True)
class _Pending:
    """Figures on the device, that are read at the end of the step."""

    reading: Reading
    figures: list[tuple[str, torch.Tensor]] = field(default_factory=list)


def floats(values: Any) -> Iterator[torch.Tensor]:
    for each in tree_leaves(values):
        if isinstance(each, torch.Tensor) and each.is_floating_point() and each.numel():
            yield each


def _largest(tensor: torch.Tensor) -> torch.Tensor:
    """NaN and Inf stay what they are."""
    return tensor.detach().abs().amax().float()


class Look:
    """Follows one step from its construction to `end()`. `autocast`: the dtype that autocast has had
    in it, None where it never was on.
    """

    def __init__(self, model: nn.Module, device_type: str) -> None:
        self._names = {id(each): name for name, each in model.named_modules()}
        self._modules = dict(model.named_modules())
        self._pending: dict[str, _Pending] = {}  # in the order in which modules end
        self._device_type = device_type
        self.autocast: torch.dtype | None = None
        self._handles: list[Any] = [
            each.register_forward_hook(self._note, with_kwargs=True) for each in model.modules()
        ]

    def _note(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        if torch.is_autocast_enabled(self._device_type):
            self.autocast = torch.get_autocast_dtype(self._device_type)
        name = self._names.get(id(module))
        if name is None:
            return
        pending = self._pending.setdefault(name, _Pending(Reading(name)))
        for which, values in (("inputs", (args, kwargs)), ("outputs", output)):
            for each in floats(values):
                pending.figures.append((which, _largest(each)))
                if which == "outputs" and each.dtype in (torch.float16, torch.bfloat16):
                    pending.reading.low = True
                if each.requires_grad and torch.is_grad_enabled():
                    self._follow_gradient(each, pending, which.removesuffix("s") + "_gradients")

    def _follow_gradient(self, tensor: torch.Tensor, pending: _Pending, which: str) -> None:
        def note(gradient: torch.Tensor) -> None:
            pending.figures.append((which, _largest(gradient)))

        if tensor.grad_fn is not None:
            self._handles.append(tensor.register_hook(note))

    def end(self) -> list[Reading]:
        """Takes the hooks away and reads; one wait for the device. Children before their parents."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        for name, pending in self._pending.items():
            for parameter in self._modules[name].parameters(recurse=False):
                if parameter.grad is not None and parameter.grad.numel():
                    pending.figures.append(("parameters", _largest(parameter.grad)))
        figures = [
            (pending.reading, which, figure)
            for pending in self._pending.values()
            for which, figure in pending.figures
        ]
        if figures:
            values = torch.stack([figure.reshape(()) for _, _, figure in figures]).tolist()
            for (reading, which, _), value in zip(figures, values, strict=True):
                value = value if math.isfinite(value) else math.inf
                setattr(reading, which, max(getattr(reading, which), value))
        return [pending.reading for pending in self._pending.values()]
