"""Operators that say which of several numbers they choose (topk, sort, argmax, comparisons), and
how many of their choices are others than those of the reference. A small error may change many of
them, where numbers lie close together.
"""

from __future__ import annotations

from typing import Any

import torch

from .call import Call

SELECTIONS = frozenset(
    f"aten::{name}"
    for name in "topk sort argsort argmax argmin max min kthvalue median nanmedian".split()
)
COMPARISONS = frozenset(f"aten::{name}" for name in "gt ge lt le eq ne isclose".split())
CHOICES = SELECTIONS | COMPARISONS
MOST_ELEMENTS = 1 << 22  # of what is chosen from


def share_of_others(call: Call, held: torch.Tensor, reference: torch.Tensor) -> float:
    """Of the places that `call` has chosen, `held`: the share that is not among those that the
    reference chooses, by the reference's own values: of equal ones either is right. Of a sorted
    order: how far its elements lie from their places, where 1 is an order at random.
    """
    args, kwargs = call.reference_args, call.reference_kwargs
    values = args[0]
    if values.numel() > MOST_ELEMENTS or not values.numel() or held.shape != reference.shape:
        return 0.0
    if not values.is_floating_point():
        return 0.0
    dim: Any = call.operator.argument("dim", args, kwargs)
    name = call.operator.schema_name
    if not values.dim() or (dim is None and name in ("aten::argmax", "aten::argmin")):
        values, held, reference = values.flatten(), held.reshape(1), reference.reshape(1)
    dim = -1 if dim is None else dim
    if held.dim() < values.dim():
        held, reference = held.unsqueeze(dim), reference.unsqueeze(dim)
    if name in ("aten::sort", "aten::argsort"):
        count = values.shape[dim]
        away = reference.argsort(dim).gather(dim, held).movedim(dim, -1)
        away = (away - torch.arange(count, device=away.device)).abs().double().mean()
        return min(1.0, float(3 * away / count))
    chosen, best = values.gather(dim, held), values.gather(dim, reference)
    if name != "aten::topk":
        return float((chosen != best).double().mean())
    if call.operator.argument("largest", args, kwargs) is False:
        chosen, best = -chosen, -best
    return float((chosen < best.amin(dim, keepdim=True)).double().mean())


def share_of_other_elements(held: torch.Tensor, reference: torch.Tensor) -> tuple[float, int]:
    """Of the elements that one of two masks chooses: the share, and number, that the other one does
    not.
    """
    others = int((held != reference).sum())
    return (others / int((held | reference).sum()) if others else 0.0), others
