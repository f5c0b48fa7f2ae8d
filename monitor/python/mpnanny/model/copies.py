"""Optimizers that hold other tensors than the model's parameters: FP32 master copies of them, one
each or in one flat tensor, or a buffer of which the parameters are views.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ..operators.modes import without_modes
from .selection import Watched


@dataclass
class Copies:
    """`originals`: the parameters whose values come from the optimizer's tensors. `moved`: what
    changes in its step, with their layers; None where that has another shape.
    """

    originals: Watched
    moved: Watched | None


def find_copies(optimizer: Any, watched: Watched) -> Copies | None:
    """None if the optimizer's tensors are not, all of them, what parameters are made from."""
    held = [each for group in optimizer.param_groups for each in group["params"]]
    memory = {each.untyped_storage().data_ptr() for each in held} - {0}
    shared = [p for p in watched.parameters if p.untyped_storage().data_ptr() in memory]
    if shared:
        views = watched.among(map(id, shared))
        return Copies(views, views)
    with torch.no_grad(), without_modes():
        return _one_each(held, watched) or _flat(held, watched)


def _one_each(held: list[torch.Tensor], watched: Watched) -> Copies | None:
    left = list(held)
    found: dict[int, torch.Tensor] = {}
    for parameter in watched.parameters:
        at = next((at for at, each in enumerate(left) if _same(each, parameter)), None)
        if at is not None:
            found[id(parameter)] = left.pop(at)
    if left or not any(_says_something(each) for each in held):
        return None
    originals = watched.among(found)
    copies: list[Any] = [found[id(each)] for each in originals.parameters]
    return Copies(originals, Watched(copies, originals.layers))


def _flat(held: list[torch.Tensor], watched: Watched) -> Copies | None:
    """In the order of the model's definition; padding may follow."""
    found: list[int] = []
    parameters = iter(watched.parameters)
    parameter = next(parameters, None)
    for flat in held:
        at = 0
        while flat.dim() == 1 and parameter is not None:
            part = flat[at : at + parameter.numel()]
            if part.numel() != parameter.numel() or not _same(part.view_as(parameter), parameter):
                break
            found.append(id(parameter))
            at += parameter.numel()
            parameter = next(parameters, None)
        if at == 0:
            return None
    return Copies(watched.among(found), None) if any(map(_says_something, held)) else None


def _same(copy: torch.Tensor, parameter: torch.Tensor) -> bool:
    if copy.shape != parameter.shape or copy.device != parameter.device:
        return False
    return torch.equal(copy.to(parameter.dtype), parameter)


def _says_something(tensor: torch.Tensor) -> bool:
    """False for zeros and ones, which are alike in all models."""
    return tensor.numel() > 1 and not bool((tensor == tensor.flatten()[0]).all())
