"""A target with its inputs, as often from the same beginning as it is wanted: forward pass, loss,
backward pass, and training steps.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map

from ..fp64.call import floats
from ..operators.places import pass_through
from .problem import Problem
from .specification import Value
from .target import Target

pass_through(__file__)

SEED = 7
FIRST_SCALE = 2.0**16  # torch.amp.GradScaler's
_HALVES = (torch.float16, torch.bfloat16)

Region = Callable[[], AbstractContextManager[None]]


@dataclass(slots=True)
class Options:
    backward: bool = True
    loss: Callable[..., Any] | None = None  # of what the target gives
    loss_scale: float | None = None  # None: as a GradScaler finds it, in FP16
    steps: int = 0  # of training, beside the first passes
    optimizer: str = "adamw"
    lr: float = 1e-3
    device: str = "cpu"
    # Inputs are rounded to this before both runs, so that what is measured is what the target does
    # to them, not what it costs to hold them.
    rounded: torch.dtype | None = None
    # The inputs are those of a call that was caught: objects among them may change as it runs, and
    # modules among them may be in 16 bits.
    caught: bool = False


@dataclass(slots=True)
class Attempt:
    """One run from the beginning. `leaves`: parameters and inputs that gradients are asked of;
    `exact`: tensors that were rounded to begin with, and what they were.
    """

    run: Callable[..., Any]
    args: list[Any]
    kwargs: dict[str, Any]
    leaves: list[tuple[str, torch.Tensor]] = field(default_factory=list)
    exact: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)
    outputs: list[tuple[str, torch.Tensor]] = field(default_factory=list)
    loss: torch.Tensor | None = None
    labels: list[Any] = field(default_factory=list)  # inputs that the loss takes, not the target

    @property
    def module(self) -> nn.Module | None:
        return self.run if isinstance(self.run, nn.Module) else None


class Program:
    def __init__(self, target: Target, inputs: list[Value], options: Options) -> None:
        self.target = target
        self.options = options
        self.inputs = inputs
        self.inputs_need_gradient = options.backward
        self.may_widen = any(
            (each.dtype if isinstance(each, torch.Tensor) else each) in _HALVES
            for each in tree_leaves([one.value for one in inputs])
            for each in (_weights(each) if options.caught else [each])
        )
        self._first = target.make()
        # Of positional inputs, those that the target does not take: labels, for the loss.
        self.surplus = _surplus(self._first, [each for each in inputs if not each.name])

    def attempt(self, low: torch.dtype | None, widened: bool = False) -> Attempt:
        """`low`: everything in this dtype; None: as it was made. `widened`: inputs that are given
        in 16 bits are FP32, as a run in full precision has them.
        """
        try:
            run = copy.deepcopy(self._first)
        except Exception:  # a generator, a lock, a graph: made anew
            run = self.target.make()
        attempt = Attempt(run, [], {})
        if isinstance(run, nn.Module):
            self._place_module(attempt, run, low)
        for at, each in enumerate(self.inputs):
            name = each.name or f"input {at}"
            widen = widened and self.may_widen
            value = tree_map(partial(self._place, attempt, name, low, widen), each.value)
            if each.name:
                attempt.kwargs[each.name] = value
            else:
                attempt.args.append(value)
        self.part(attempt)
        return attempt

    def part(self, attempt: Attempt) -> None:
        """Takes what the target does not take from its arguments: it goes to the loss."""
        if self.surplus:
            attempt.args, attempt.labels = (
                attempt.args[: -self.surplus],
                attempt.args[-self.surplus :],
            )

    def loss_of(self, attempt: Attempt, result: Any) -> torch.Tensor | None:
        """What is derived; None where there is none."""
        if self.options.loss is None:
            return loss_of(result)
        made: torch.Tensor = self.options.loss(result, *attempt.labels)
        return made

    def _place_module(self, attempt: Attempt, module: nn.Module, low: torch.dtype | None) -> None:
        module.to(self.options.device)
        if low is not None:
            before = {
                name: each.detach().to(torch.float64)
                for name, each in _states(module)
                if each.is_floating_point()
            }
            module.to(low)
            attempt.exact += [
                (each.data, before[name])
                for name, each in _states(module)
                if name in before and each.dtype is low
            ]
        attempt.leaves += [
            (name, each) for name, each in module.named_parameters() if each.requires_grad
        ]

    def placed(self, value: Any) -> Any:
        """On the device, if it is a tensor."""
        return value.to(self.options.device) if isinstance(value, torch.Tensor) else value

    def _place(
        self, attempt: Attempt, name: str, low: torch.dtype | None, widen: bool, value: Any
    ) -> Any:
        if isinstance(value, nn.Module):
            value = copy.deepcopy(value)
            if widen and self.options.caught:
                value.float()
            self._place_module(attempt, value, low)
            return value
        if isinstance(value, torch.dtype):
            if widen and value in _HALVES:
                return torch.float32
            return low if low is not None and value is torch.float32 else value
        if not isinstance(value, torch.Tensor):
            return copy.deepcopy(value) if self.options.caught else value
        placed = value.detach().clone().to(self.options.device)
        if widen and placed.dtype in _HALVES:
            placed = placed.float()
        if self.options.rounded is not None and placed.dtype is torch.float32:
            placed = placed.to(self.options.rounded).float()
            value = placed
        if low is not None and placed.dtype is torch.float32:
            placed = placed.to(low)
            attempt.exact.append((placed, value.detach().to(placed.device, torch.float64)))
        if self.inputs_need_gradient and placed.dtype in (
            torch.float16,
            torch.bfloat16,
            torch.float32,
        ):
            placed.requires_grad_()
            attempt.leaves.append((name, placed))
        return placed

    # --- passes ---

    def forward(self, attempt: Attempt, region: Region) -> None:
        """Fills in outputs and loss. What the target raises goes on as it is."""
        torch.manual_seed(SEED)
        with region():
            result = attempt.run(*attempt.args, **attempt.kwargs)
            attempt.outputs = list(_named("", result))
            attempt.loss = self.loss_of(attempt, result)
        if not attempt.outputs and not _holds_number(result):
            raise Problem(
                f"{self.target.name} gives neither a tensor nor a number, but a"
                f" {type(result).__name__}.",
                "Wrap it in a function that returns what is to be compared.",
            )

    def backward(self, attempt: Attempt, scale: float, keep: bool = False) -> None:
        """From the loss, or from fixed random gradients of the outputs where there is none."""
        for _, leaf in attempt.leaves:
            leaf.grad = None
        if attempt.loss is not None:
            (attempt.loss * scale if scale != 1 else attempt.loss).backward(retain_graph=keep)
            return
        draw = torch.Generator().manual_seed(SEED)
        outputs, gradients = [], []
        for _, output in attempt.outputs:
            if output.requires_grad and output.is_floating_point():
                drawn = torch.randn(output.shape, generator=draw, dtype=torch.float64)
                drawn = drawn * (scale / max(1, output.numel()))
                outputs.append(output)
                gradients.append(drawn.to(output.dtype).to(output.device))
        if outputs:
            torch.autograd.backward(outputs, gradients, retain_graph=keep)

    def derives(self, attempt: Attempt) -> bool:
        """Whether there is anything to derive."""
        ends = [attempt.loss] if attempt.loss is not None else [each for _, each in attempt.outputs]
        return self.options.backward and any(each.requires_grad for each in ends)

    def find_scale(self, low: torch.dtype | None, region: Region, is_half: bool) -> float:
        """The loss scale that a GradScaler would end at: the largest power of two, from 2^16 down,
        at which all gradients are finite; 1 where none is.
        """
        if self.options.loss_scale is not None:
            return self.options.loss_scale
        if not is_half:
            return 1.0
        attempt = self.attempt(low)
        self.forward(attempt, region)
        if not self.derives(attempt) or not all(
            map(_is_finite, (each for _, each in attempt.outputs))
        ):
            return 1.0
        scale = FIRST_SCALE
        while scale > 1:
            self.backward(attempt, scale, keep=True)
            if all(leaf.grad is None or _is_finite(leaf.grad) for _, leaf in attempt.leaves):
                break
            scale /= 2
        return scale

    def optimizer(self, attempt: Attempt) -> torch.optim.Optimizer:
        """Raises Problem where torch.optim has none of this name."""
        wanted = self.options.optimizer.lower()
        known = {
            name.lower(): each
            for name, each in vars(torch.optim).items()
            if isinstance(each, type) and name != "Optimizer"
        }
        if wanted not in known:
            raise Problem(f"torch.optim has no '{wanted}'.", "Known are " + ", ".join(known) + ".")
        module = attempt.module
        if module is None:
            raise Problem("Training steps need a model.", "Give `model` instead of a function.")
        made: torch.optim.Optimizer = known[wanted](module.parameters(), lr=self.options.lr)
        return made

    def train(
        self, low: torch.dtype | None, region: Region, scale: float, widened: bool = False
    ) -> Iterator[float]:
        """The losses of `steps` training steps on the same inputs. Without a loss the mean square
        of the first output is one.
        """
        attempt = self.attempt(low, widened)
        optimizer = self.optimizer(attempt)
        scaler = torch.amp.GradScaler(case_device(attempt), init_scale=scale, enabled=scale != 1)
        for step in range(self.options.steps):
            torch.manual_seed(SEED + step)
            with region():
                result = attempt.run(*attempt.args, **attempt.kwargs)
                made = self.loss_of(attempt, result)
                if made is None:
                    made = next(floats(result)).float().square().mean()
            optimizer.zero_grad()
            scaler.scale(made).backward()
            scaler.step(optimizer)
            scaler.update()
            yield made.item()


def _surplus(run: Any, inputs: list[Value]) -> int:
    """How many of the positional `inputs` are more than `run` takes: one batch (x, y) of a model of
    x has one.
    """
    described = run.forward if isinstance(run, nn.Module) else run
    try:
        parameters = inspect.signature(described).parameters.values()
    except (TypeError, ValueError):
        return 0
    if not isinstance(run, nn.Module) or any(e.kind is e.VAR_POSITIONAL for e in parameters):
        return 0
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return max(0, len(inputs) - sum(each.kind in plain for each in parameters))


def case_device(attempt: Attempt) -> str:
    return next((each.device.type for _, each in attempt.leaves), "cpu")


def _states(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()


def _weights(value: Any) -> list[Any]:
    """Of a module its parameters; anything else by itself."""
    return list(value.parameters()) if isinstance(value, nn.Module) else [value]


def _is_finite(tensor: torch.Tensor) -> bool:
    return not tensor.is_floating_point() or bool(tensor.isfinite().all())


def loss_of(result: Any) -> torch.Tensor | None:
    """A single number is a loss, as is what is called so."""
    found = result.get("loss") if isinstance(result, dict) else getattr(result, "loss", None)
    found = result if found is None else found
    if isinstance(found, torch.Tensor) and found.numel() == 1 and found.is_floating_point():
        return found.reshape(())
    return None


def _holds_number(value: Any, depth: int = 0) -> bool:
    """Numbers that were read from tensors are followed up to there."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return depth < 3 and any(_holds_number(each, depth + 1) for each in value)
    return isinstance(value, (int, float))


def _named(name: str, value: Any, depth: int = 0) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors of a result with names as `0.weight`."""
    if isinstance(value, torch.Tensor):
        yield name or "output", value
    elif depth < 5 and isinstance(value, dict):
        for key, each in value.items():
            yield from _named(f"{name}.{key}" if name else str(key), each, depth + 1)
    elif depth < 5 and isinstance(value, (tuple, list)):
        for at, each in enumerate(value):
            yield from _named(f"{name}.{at}" if name else str(at), each, depth + 1)
    elif depth < 5 and hasattr(value, "__dataclass_fields__"):
        for key in value.__dataclass_fields__:
            yield from _named(f"{name}.{key}" if name else key, getattr(value, key), depth + 1)
