"""Finds modules in the whole process: what contains a module, what holds given tensors."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from ..model.parts import Together

MOST_NODES = 4096  # of a loss's graph


def modules() -> Iterable[nn.Module]:
    """Every module of the process. type() and not isinstance(): that asks proxies, which work."""
    found = (each for each in gc.get_objects() if issubclass(type(each), nn.Module))
    return (each for each in found if type(each) is not Together)


def leaves(losses: Any) -> list[torch.Tensor]:
    """The tensors whose gradients the losses have."""
    several = losses if isinstance(losses, (list, tuple)) else [losses]
    nodes = [each.grad_fn for each in several if isinstance(each, torch.Tensor)]
    seen: set[Any] = set()
    found: dict[int, torch.Tensor] = {}
    while nodes and len(seen) < MOST_NODES:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None:
            found[id(variable)] = variable
        nodes.extend(each for each, _ in node.next_functions)
    return list(found.values())


def whole_model(module: nn.Module) -> nn.Module:
    """The largest module that contains `module`; what only wraps the user's model is taken off."""
    best, most = module, sum(1 for _ in module.modules())
    for each in modules():
        try:
            members = list(each.modules())
        except Exception:
            continue  # half made
        if len(members) > most and any(member is module for member in members):
            best, most = each, len(members)
    return _unwrapped(best)


def owner(parameters: set[int]) -> nn.Module | None:
    """The module with most of `parameters`, the smallest of several."""
    best, best_worth = None, (0, 0)
    for each in modules():
        try:
            held = [id(parameter) in parameters for parameter in each.parameters()]
        except Exception:
            continue
        worth = (sum(held), -len(held))
        if worth > best_worth and sum(held) > 0:
            best, best_worth = each, worth
    return None if best is None else _unwrapped(best)


def stand_for(module: nn.Module, tensors: dict[str, torch.Tensor]) -> bool:
    """Whether `tensors` stand for its parameters: by their names, or one by one."""
    own = dict(module.named_parameters())
    if set(own) == set(tensors):
        return True
    return [each.shape for each in own.values()] == [each.shape for each in tensors.values()]


def _unwrapped(model: nn.Module) -> nn.Module:
    wrappers = {"DistributedDataParallel": "module", "OptimizedModule": "_orig_mod"}
    while (inside := wrappers.get(type(model).__name__)) and isinstance(
        getattr(model, inside, None), nn.Module
    ):
        model = getattr(model, inside)
    return model


def together(
    weights: Iterable[torch.Tensor],
    first: nn.Module | None = None,
    ran: Iterable[nn.Module] = (),
) -> nn.Module:
    """What holds all of `weights`: one module where there is one. `first`: known to be one of its
    parts; `ran`: modules that the weights went into, where they are in none.
    """
    tensors = {id(each): each for each in weights}
    parts: list[nn.Module] = []
    while tensors:
        found = first if first is not None else owner(set(tensors))
        first = None
        if found is None:
            break
        parts.append(found)
        tensors = {i: t for i, t in tensors.items() if all(t is not p for p in found.parameters())}
    if tensors and not parts:
        parts.extend(ran)
    if len(parts) == 1 and not tensors:
        return parts[0]
    named: dict[str, nn.Module] = {}
    for part in parts:
        name = type(part).__name__
        named[name if name not in named else f"{name}{len(named)}"] = part
    return Together(named, {f"weight{at}": each for at, each in enumerate(tensors.values())})
