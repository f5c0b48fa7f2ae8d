"""What shows where a finding comes from: one element, with what the operator was given there and
its reference.
"""

from __future__ import annotations

from typing import Any

import torch

from .call import Result

MOST_OPERANDS = 4


def operands(result: Result) -> list[list[float]] | None:
    """Of the first element of the result that is not finite (and finite in the reference, if any
    is): the operands as [held, reference]. None of an operator that does not work element by
    element.
    """
    call, held, reference = result.call, result.held, result.reference
    if torch.Tag.pointwise not in getattr(call.function, "tags", ()) or call.operator.is_list:
        return None
    wrong = ~torch.isfinite(held)
    apart = wrong & torch.isfinite(reference)
    at = torch.nonzero(apart if bool(apart.any()) else wrong)
    if not len(at):
        return None
    place = tuple(at[0].tolist())
    shown: list[list[float]] = []
    for each in call.sources()[:MOST_OPERANDS]:
        value, exact = _at(each.held, held.shape, place), _at(each.reference, held.shape, place)
        if value is None or exact is None:
            return None
        shown.append([value, exact])
    return shown or None


def _at(tensor: Any, shape: torch.Size, place: tuple[int, ...]) -> float | None:
    if tensor.is_complex():
        return None
    try:
        return float(tensor.expand(shape)[place].item())
    except RuntimeError:  # no operand of the same element
        return None
