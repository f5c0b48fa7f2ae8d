"""Reads what torch's calls hand over: losses, their graph, a scaler's verdict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..base.later import Later
from .step import to_float

# -1 where no backward pass is running in this thread.
graph_task_id: Callable[[], int] = getattr(torch._C, "_current_graph_task_id", lambda: -1)


def tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [each for each in value if isinstance(each, torch.Tensor)]
    return []


def reaches(loss: torch.Tensor, parameters: set[int], limit: int = 1000) -> bool | None:
    """Whether one of `parameters` is among the first `limit` nodes of the loss's graph. None: no
    parameter at all is, as where reentrant checkpoints hide them.
    """
    others = False
    nodes: list[Any] = [loss.grad_fn]
    seen: set[Any] = set()
    while nodes and len(seen) < limit:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None:
            if id(variable) in parameters:
                return True
            others = others or isinstance(variable, torch.nn.Parameter)
        nodes.extend(following for following, _ in node.next_functions)
    return False if others else None


def found_inf(scaler: Any, optimizer: Any) -> Any:
    """Whether gradients were not finite; of a device a figure that is above 0 then."""
    found = scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"].values()
    total = sum(to_float(tensor) or 0.0 for tensor in found)
    return total if isinstance(total, Later) else total > 0
