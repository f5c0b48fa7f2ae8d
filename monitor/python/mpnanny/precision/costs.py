"""What a plan costs: memory, of which kept activations are measured, and time by a roofline model.

The model is max(operations / peak, bytes / bandwidth) for each operator, with the peaks of the data
sheet: nothing reaches them, so only ratios of two plans on one device mean anything.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

from ..fp64.call import floats
from ..operators.as_called import run_as_called
from ..operators.modes import ModeStack, StepMode
from ..operators.places import pass_through
from ..programs.program import Attempt, Program, Region
from .devices import Device

pass_through(__file__)


@dataclass(slots=True)
class Work:
    """One pass, forward and backward: operations of matrix products and bytes of everything, by the
    format of what is computed. `kept`: bytes of activations that autograd holds at the most;
    `operators` of the forward pass that give floating-point values, `wide` of them in FP32.
    """

    products: dict[str, float] = field(default_factory=dict)
    product_bytes: dict[str, float] = field(default_factory=dict)
    other_bytes: dict[str, float] = field(default_factory=dict)
    kept: int = 0
    operators: int = 0
    wide: int = 0

    @property
    def wide_share(self) -> float:
        return self.wide / self.operators if self.operators else 0.0


_NAMES = {torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32"}


class _Count(StepMode):
    supports_higher_order_operators = True

    def __init__(self, work: Work, wide_products: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._work = work
        self._wide_products = wide_products

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        result = run_as_called(func, args, kwargs)
        made = next(floats(result), None)
        views = getattr(func, "is_view", False)
        if made is None or not self.looking or views:
            return result
        work = self._work
        moved = sum(
            each.numel() * each.itemsize for each in (*floats((args, kwargs)), *floats(result))
        )
        name = _NAMES.get(made.dtype, "fp32")
        formula = flop_registry.get(func._overloadpacket)
        if formula is not None:
            if made.dtype is torch.float32:
                name = self._wide_products
            count = float(formula(*args, **kwargs, out_val=result))
            work.products[name] = work.products.get(name, 0.0) + count
            work.product_bytes[name] = work.product_bytes.get(name, 0.0) + moved
        else:
            work.other_bytes[name] = work.other_bytes.get(name, 0.0) + moved
        if torch.is_grad_enabled() and torch._C._current_graph_task_id() == -1:
            work.operators += 1
            work.wide += made.dtype is torch.float32
        return result


@contextlib.contextmanager
def _kept_activations(work: Work, own: set[int]) -> Iterator[None]:
    """Counts what autograd keeps, each memory once; weights are there anyway."""
    seen: set[int] = set(own)

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        with contextlib.suppress(NotImplementedError):
            memory = tensor.untyped_storage()
            if memory._cdata not in seen:
                seen.add(memory._cdata)
                work.kept += memory.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield


def count_work(
    program: Program, region_for: Callable[[Attempt], Region], wide_products: str = "fp32"
) -> Work:
    """Of one pass of `program` inside the region that `region_for` its attempt gives.
    `wide_products`: the format of matrix products whose results are FP32: TF32 or simulated FP8.
    """
    work = Work()
    attempt = program.attempt(None)
    own = {each.untyped_storage()._cdata for _, each in attempt.leaves}
    stack = ModeStack()
    mode = _Count(work, wide_products)
    stack.push(mode, eager=True)
    try:
        with _kept_activations(work, own):
            program.forward(attempt, region_for(attempt))
        if program.derives(attempt):
            program.backward(attempt, 1.0)
    finally:
        mode.looking = False
        stack.remove(mode)
    return work


def seconds(work: Work, device: Device) -> float | None:
    """By the roofline model; None where the device's table has no such figure."""
    total = 0.0
    bandwidth = device.bandwidth
    if not bandwidth:
        return None
    for name, operations in work.products.items():
        peak = device.peak(name)
        if not peak:
            return None
        total += max(operations / peak, work.product_bytes[name] / bandwidth)
    return total + sum(work.other_bytes.values()) / bandwidth


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes. `states`: of the optimizer; `kept`: activations, measured at the inputs given."""

    weights: int
    copies: int
    gradients: int
    states: int
    kept: int

    @property
    def total(self) -> int:
        return self.weights + self.copies + self.gradients + self.states + self.kept


def memory_of(
    parameters: int, states_per_parameter: int, low: bool, pure: bool, masters: bool, kept: int
) -> Memory:
    """`parameters`: elements. `low`: computed in 16 bits; `pure`: weights and gradients are kept in
    16 bits, with FP32 `masters` in the optimizer or without, when its states are of 16 bits too.
    Otherwise weights are FP32 and autocast holds a 16-bit copy of them for the step.
    """
    held = 2 if pure else 4
    state = 4 if masters or not pure else 2
    return Memory(
        weights=held * parameters,
        copies=(4 * parameters if pure and masters else 0)
        + (2 * parameters if low and not pure else 0),
        gradients=held * parameters,
        states=state * states_per_parameter * parameters,
        kept=kept,
    )
