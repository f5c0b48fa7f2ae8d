"""torch.func: gradients of a function of weights that are arguments. Neither backward() nor an
optimizer is called, and the weights are other tensors at each step: their names are the keys of
the argument, as functional_call() takes them, or their places in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from .selection import Watched
from .watched import WatchedModel

_functorch: Any = getattr(torch._C, "_functorch", None)


def named(value: Any, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of an argument, with the keys that lead to them; plain ones also under vmap."""
    if isinstance(value, torch.Tensor):
        yield name, plain(value)
        return
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    for key, each in items:
        yield from named(each, f"{name}.{key}" if name else str(key))


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor that functorch has wrapped, with the batch as one of its dimensions."""
    while _functorch is not None and _functorch.is_functorch_wrapped_tensor(tensor):
        tensor = _functorch.get_unwrapped(tensor)
    return tensor


def is_nested() -> bool:
    """Whether another gradient of torch.func is being computed."""
    stack = _functorch.get_interpreter_stack() if _functorch is not None else None
    return any("Grad" in str(each.key()) for each in stack or ())


def is_batched() -> bool:
    stack = _functorch.get_interpreter_stack() if _functorch is not None else None
    return any("Vmap" in str(each.key()) for each in stack or ())


def mean_loss(value: Any) -> float | None:
    """Of the samples under vmap; None where it would make the host wait for a device."""
    value = plain(value).detach()
    if value.device.type != "cpu" or not value.numel():
        return None
    values = value.flatten().tolist()
    return math.fsum(values) / len(values) if all(map(math.isfinite, values)) else sum(values)


def match(model: WatchedModel, arguments: Any) -> list[int] | None:
    """The layers of the tensors of `arguments`, in their order; None if they are not the weights
    of `model`: some other derivative is taken.
    """
    given = list(named(arguments))
    layers = model.layers_by_name
    for prefix in ("", *model.prefixes):
        found = [layers.get(prefix + name, 0) for name, _ in given]
        if found and all(found):
            return found
    watched = model.parameters
    shapes = [tensor.shape for _, tensor in given]
    if given and shapes == [each.shape for each in watched.parameters]:
        return list(watched.layers)
    return None


def as_watched(arguments: Any, layers: list[int]) -> Watched:
    tensors: list[Any] = [tensor for _, tensor in named(arguments)]
    return Watched(tensors, layers)
