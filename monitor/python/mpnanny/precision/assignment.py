"""Runs a model with some of its units in the low dtype and the others in FP32.

A unit is a module's own operators: those that run while it is the innermost module. What runs
outside of all modules is the unit OUTSIDE. Hooks switch autocast (or cast the weights) as a unit is
entered and left, and cast what goes over a border, so that a unit computes what it would compute if
the whole model ran in its dtype: dtypes that the code itself asks for stay.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from ..operators.places import pass_through

pass_through(__file__)

OUTSIDE = "(outside of modules)"
BASES = ("autocast", "pure", "fp8")

_WIDE = torch.float32


@dataclass(slots=True)
class Borders:
    """What goes into and comes out of each unit where all units are low: dtype by unit and by
    position among the values. Filled in by the first run, followed by the others.
    """

    inputs: dict[tuple[str, int], torch.dtype] = field(default_factory=dict)
    outputs: dict[tuple[str, int], torch.dtype] = field(default_factory=dict)
    filled: bool = False


class Assignment:
    """`low_units` of `model` compute in `low`; every other unit in FP32, or with the base `fp8` in
    BF16 if it is in `bf16_units`.

    `base`: `autocast` follows the lists of operators of the autocast that is installed
    (diff/policy.py); `pure` casts weights and inputs; `fp8` is autocast in BF16 with the linear
    layers of `low_units` in FP8.
    """

    def __init__(
        self,
        model: nn.Module,
        low_units: Collection[str],
        low: torch.dtype,
        base: str,
        borders: Borders,
        device: str = "cpu",
        bf16_units: Collection[str] = (),
    ) -> None:
        self._names = {id(each): name for name, each in model.named_modules()}
        self._model = model
        self._eight_bit = frozenset(low_units) if base == "fp8" else frozenset()
        self._low_units = frozenset(low_units) | frozenset(bf16_units)
        self._low = low
        self._base = base
        self._borders = borders
        self._device = device
        self._stack: list[str] = []
        self._held: list[tuple[nn.Module, dict[str, Any], dict[str, Any]]] = []

    @property
    def unit(self) -> str:
        """The unit whose operators run at this moment."""
        return self._stack[-1] if self._stack else OUTSIDE

    def is_low(self, unit: str) -> bool:
        return unit in self._low_units

    @property
    def is_eight_bit(self) -> bool:
        """Whether a linear layer that runs at this moment has FP8 operands."""
        return self.unit in self._eight_bit

    @contextlib.contextmanager
    def region(self) -> Iterator[None]:
        """Around one forward pass and its loss."""
        handles = []
        for module in self._model.modules():
            handles.append(
                module.register_forward_pre_hook(self._enter, prepend=True, with_kwargs=True)
            )
            handles.append(
                module.register_forward_hook(self._leave, with_kwargs=True, always_call=True)
            )
        try:
            with torch.autocast(self._device, dtype=self._autocast_dtype(), enabled=True):
                self._switch()
                yield
        finally:
            for handle in handles:
                handle.remove()
            while self._stack:  # an exception has left units open
                self._stack.pop()
                self._put_back()
            self._borders.filled = True

    def _autocast_dtype(self) -> torch.dtype:
        return torch.bfloat16 if self._base == "fp8" else self._low

    def _switch(self) -> None:
        """Autocast as the unit under way wants it."""
        enabled = self._base != "pure" and self.is_low(self.unit)
        torch.set_autocast_enabled(self._device, enabled)

    def _enter(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        unit = self._names.get(id(module), self.unit)
        outer = self.unit
        self._stack.append(unit)
        self._switch()
        self._take_weights(module, unit)
        dtypes = self._borders.inputs
        if not self._borders.filled:
            made = (args, kwargs)
            if self._base == "pure" and outer == OUTSIDE:
                made = _cast(made, lambda at: self._low, (_WIDE,))
            _note(made, unit, dtypes)
            return made
        if not self.is_low(unit):
            return _cast((args, kwargs), lambda at: _WIDE, (self._low, torch.bfloat16))
        return _cast((args, kwargs), lambda at: dtypes.get((unit, at)), (_WIDE,))

    def _leave(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        if not self._stack:
            return output
        unit = self._stack.pop()
        self._put_back()
        self._switch()
        dtypes = self._borders.outputs
        if not self._borders.filled:
            _note(output, unit, dtypes)
            return output
        if self.is_low(unit) == self.is_low(self.unit):
            return output
        if self.is_low(unit):
            return _cast(output, lambda at: _WIDE, (self._low, torch.bfloat16))
        return _cast(output, lambda at: dtypes.get((unit, at)), (_WIDE,))

    # --- weights, where nothing is cast by autocast ---

    def _take_weights(self, module: nn.Module, unit: str) -> None:
        own: dict[str, Any] = {}
        buffers: dict[str, Any] = {}
        if self._base == "pure" and self.is_low(unit):
            own = {name: each for name, each in module._parameters.items() if _is_wide(each)}
            buffers = {name: each for name, each in module._buffers.items() if _is_wide(each)}
            for name, weight in own.items():
                module._parameters[name] = weight.to(self._low)
            for name, buffer in buffers.items():
                module._buffers[name] = buffer.to(self._low)
            _refresh_flat_weights(module)
        self._held.append((module, own, buffers))

    def _put_back(self) -> None:
        module, own, buffers = self._held.pop()
        for name, buffer in buffers.items():
            changed = module._buffers[name]
            if changed is not None:
                with torch.no_grad():
                    buffer.copy_(changed)
            module._buffers[name] = buffer
        module._parameters.update(own)
        if own:
            _refresh_flat_weights(module)


def _is_wide(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype is _WIDE


def _refresh_flat_weights(module: nn.Module) -> None:
    """nn.RNNBase keeps its weights in a second list."""
    if isinstance(module, nn.RNNBase):
        module._flat_weights = [module._parameters[name] for name in module._flat_weights_names]


def _note(values: Any, unit: str, dtypes: dict[tuple[str, int], torch.dtype]) -> None:
    for at, each in enumerate(tree_flatten(values)[0]):
        if isinstance(each, torch.Tensor) and each.is_floating_point():
            dtypes[unit, at] = each.dtype


def _cast(values: Any, dtype_of: Any, kinds: tuple[torch.dtype, ...]) -> Any:
    """Tensors among `values` whose dtype is one of `kinds`, as `dtype_of` their position."""
    flat, form = tree_flatten(values)
    made = [
        each.to(dtype_of(at) or each.dtype)
        if isinstance(each, torch.Tensor) and each.dtype in kinds
        else each
        for at, each in enumerate(flat)
    ]
    return tree_unflatten(made, form)
