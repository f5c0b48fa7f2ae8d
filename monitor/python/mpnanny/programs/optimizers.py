"""Optimizers as functions: a weight and its gradient go in, the weight after some steps comes out.

So an optimizer is tried as any function is, and what it keeps between steps begins anew each time.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ..operators.places import pass_through

pass_through(__file__)

STEPS = 3
_PARAMETERS = ("params", "parameters", "param_groups")


def is_optimizer(owner: type) -> bool:
    """One of torch's kind, or a class whose constructor takes parameters and that has a step()."""
    if issubclass(owner, torch.optim.Optimizer):
        return True
    if issubclass(owner, nn.Module) or not callable(getattr(owner, "step", None)):
        return False
    try:
        first = next(iter(inspect.signature(owner).parameters), "")
    except (TypeError, ValueError):
        return False
    return first in _PARAMETERS


def stepped(owner: type, args: list[Any], kwargs: dict[str, Any]) -> Callable[..., Any]:
    """A function of a weight and a gradient. `args`, `kwargs`: of the constructor, behind the
    parameters.
    """

    def step(weight: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        parameter = nn.Parameter(weight.detach().clone())
        optimizer = owner([parameter], *args, **kwargs)
        for _ in range(STEPS):
            parameter.grad = gradient.detach().clone()
            optimizer.step()
        return parameter.detach()

    return step
