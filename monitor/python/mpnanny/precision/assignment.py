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


@dataclass(slots=True)
class _Frame:
    """A unit that is under way, and what was there before it: to be put back when it is left."""

    unit: str
    outer: str
    autocast: bool
    low_weights: bool
    weights: list[tuple[nn.Module, dict[str, Any]]] = field(default_factory=list)
    buffers: list[tuple[nn.Module, str, torch.Tensor]] = field(default_factory=list)


class Assignment:
    """`low_units` of `model` compute in `low`; every other unit in FP32, or with the base `fp8` in
    BF16 if it is in `bf16_units`. It is in force until `detach()`, backward passes included, in
    which activation checkpointing runs modules again.

    `base`: `autocast` follows the lists of operators of the autocast that is installed
    (programs/policy.py); `pure` casts weights and inputs; `fp8` is autocast in BF16 with the linear
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
        self._eight_bit = frozenset(low_units) if base == "fp8" else frozenset()
        self._low_units = frozenset(low_units) | frozenset(bf16_units)
        self._low = low
        self._base = base
        self._borders = borders
        self._device = device
        self._stack: list[_Frame] = []
        self._outer: dict[str, str] = {}  # of each unit, at its last call
        self._weights = {
            id(module): {name: each for name, each in module._parameters.items() if _is_wide(each)}
            for module in model.modules()
        }
        self._low_weights = False
        self._cast_weights: dict[tuple[int, bool], torch.Tensor] = {}
        self._handles: list[Any] = []
        for module in model.modules():
            self._handles += [
                module.register_forward_pre_hook(self._enter, prepend=True, with_kwargs=True),
                module.register_forward_hook(self._leave, with_kwargs=True, always_call=True),
            ]

    def detach(self) -> None:
        """The model is as it was."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._cast_weights.clear()
        self._borders.filled = True

    @property
    def unit(self) -> str:
        """The unit whose operators run at this moment."""
        return self._stack[-1].unit if self._stack else OUTSIDE

    def is_low(self, unit: str) -> bool:
        return unit in self._low_units

    @property
    def is_eight_bit(self) -> bool:
        """Whether a linear layer that runs at this moment has FP8 operands."""
        return self.unit in self._eight_bit

    @contextlib.contextmanager
    def region(self) -> Iterator[None]:
        """Around one forward pass and its loss."""
        self._cast_weights.clear()
        try:
            with torch.autocast(self._device, dtype=self._autocast_dtype(), enabled=True):
                self._switch(OUTSIDE)
                yield
        finally:
            while self._stack:  # an exception has left units open
                self._put_back(self._stack.pop())

    def _autocast_dtype(self) -> torch.dtype:
        return torch.bfloat16 if self._base == "fp8" else self._low

    def _switch(self, unit: str) -> None:
        """Autocast as `unit` wants it."""
        enabled = self._base != "pure" and self.is_low(unit)
        torch.set_autocast_enabled(self._device, enabled)

    def _enter(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        unit = self._names.get(id(module), self.unit)
        if self._stack or torch._C._current_graph_task_id() == -1:
            outer = self._outer[unit] = self.unit
        else:  # in backward: activation checkpointing
            outer = self._outer.get(unit, OUTSIDE)
        enabled = torch.is_autocast_enabled(self._device)
        frame = _Frame(unit, outer, enabled, self._low_weights)
        self._stack.append(frame)
        self._switch(unit)
        if self._base == "pure":
            self._take_weights(module, frame)
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
        frame = self._stack.pop()
        self._put_back(frame)
        dtypes = self._borders.outputs
        if not self._borders.filled:
            _note(output, frame.unit, dtypes)
            return output
        if self.is_low(frame.unit) == self.is_low(frame.outer):
            return output
        if self.is_low(frame.unit):
            return _cast(output, lambda at: _WIDE, (self._low, torch.bfloat16))
        return _cast(output, lambda at: dtypes.get((frame.unit, at)), (_WIDE,))

    # --- weights, where nothing is cast by autocast ---

    def _take_weights(self, module: nn.Module, frame: _Frame) -> None:
        """Of the module and of those inside it, whose weights it may use without calling them, as
        nn.MultiheadAttention does; a module that is called takes its own.
        """
        low = self.is_low(frame.unit)
        if low != self._low_weights:
            self._low_weights = low
            for each in module.modules():
                weights = self._weights.get(id(each))
                if not weights:
                    continue
                frame.weights.append((each, {name: each._parameters[name] for name in weights}))
                for name, weight in weights.items():
                    each._parameters[name] = self._cast_weight(weight) if low else weight
                _refresh_flat_weights(each)
        if low:
            for name, buffer in module._buffers.items():
                if buffer is not None and _is_wide(buffer):
                    frame.buffers.append((module, name, buffer))
                    module._buffers[name] = buffer.to(self._low)

    def _cast_weight(self, weight: Any) -> Any:
        key = (id(weight), torch.is_grad_enabled())
        if key not in self._cast_weights:
            self._cast_weights[key] = weight.to(self._low)
        return self._cast_weights[key]

    def _put_back(self, frame: _Frame) -> None:
        torch.set_autocast_enabled(self._device, frame.autocast)
        self._low_weights = frame.low_weights
        for module, name, buffer in frame.buffers:
            changed = module._buffers[name]
            if changed is not None:
                with torch.no_grad():
                    buffer.copy_(changed)
            module._buffers[name] = buffer
        for module, weights in frame.weights:
            module._parameters.update(weights)
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
