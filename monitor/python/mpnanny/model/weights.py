"""Questions about a model's weights."""

from __future__ import annotations

import gc

import torch
from torch import nn

from .._core import figures


def has_optimizer(model: nn.Module | None) -> bool:
    """Whether an optimizer holds weights of `model`, be it that it has not stepped yet, as while
    gradients accumulate. Looks through all objects of the process. type() and not isinstance():
    that asks proxies, which work.
    """
    ids = set() if model is None else {id(each) for each in model.parameters()}
    optimizers = [
        each for each in gc.get_objects() if issubclass(type(each), torch.optim.Optimizer)
    ]
    groups = [group for each in optimizers for group in each.param_groups]
    return any(id(weight) in ids for group in groups for weight in group["params"])


def held_and_owned() -> tuple[set[int], set[int]]:
    """The ids of all parameters of the process that an optimizer holds, and that a module has."""
    held: set[int] = set()
    owned: set[int] = set()
    for each in gc.get_objects():
        if issubclass(type(each), torch.optim.Optimizer):
            held |= {id(one) for group in each.param_groups for one in group["params"]}
        elif issubclass(type(each), nn.Module):
            owned |= {id(one) for one in each.__dict__.get("_parameters", {}).values()}
    return held, owned


def largest_weight(model: nn.Module | None) -> float:
    """The largest finite magnitude; 0 where there is none, or out of the kernels' reach."""
    found = None if model is None else figures([each.detach() for each in model.parameters()])
    return 0.0 if found is None or found[4] is None else found[4]
