"""References that are 0 but for rounding: errors beside them mean nothing."""

from __future__ import annotations

from typing import Any

import torch

from .call import tensors_of
from .comparison import HALF_ULP, OF_FP64, OF_PRODUCTS
from .result import Result

SAME = 1e-6  # relative difference of two references that are the same

_DIFFERENCES = frozenset(("aten::sub", "aten::rsub", "aten::add"))
_SUMS = frozenset(("aten::sum", "aten::mean"))


def cancels(result: Result, rounding: float) -> bool:
    """Whether the references of equal values were subtracted: what is left is their rounding.
    (is_noise() does not see it where the held values are equal to the bit.)
    """
    call, found = result.call, result.found
    if call.operator.schema_name not in _DIFFERENCES:
        return _sums_to_nothing(result)
    inputs = (each.compare() for each in call.sources())
    size = max((each.squared_reference for each in inputs if each is not None), default=0.0)
    return found.squared_reference <= size * (OF_PRODUCTS if rounding else OF_FP64) ** 2


def _sums_to_nothing(result: Result) -> bool:
    """Whether terms were summed whose sum is 0 by design, as of advantages: it is below half an ulp
    that a term of this size has in FP32, in which most terms were made.
    """
    call, found = result.call, result.found
    name = call.operator.schema_name
    terms = next((each.compare() for each in call.sources()), None)
    if name not in _SUMS or terms is None or not terms.numel:
        return False
    of_term = terms.squared_reference / terms.numel
    of_result = found.squared_reference / found.numel
    if name == "aten::sum":
        of_result /= (terms.numel / found.numel) ** 2
    return of_result <= of_term * HALF_ULP[torch.float32] ** 2


def depends_on_noise(result: Result) -> bool:
    """Whether the reference would be another one if its inputs that are 0 but for rounding were 0:
    the gradient of a bias before a normalisation, divided by its own size, is. exp() of such a
    difference is 1 either way, and what is held instead is an error.
    """
    call, index, reference = result.call, result.index, result.reference
    if call.written or call.operator.is_list:
        return True
    zeroed = {id(each.reference) for each in call.inputs if each.noise}

    def without(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return torch.zeros_like(value) if id(value) in zeroed else value
        if isinstance(value, (tuple, list)):
            return type(value)(map(without, value))
        return value

    try:
        again = call.function(*without(call.reference_args), **call.reference_kwargs)
    except Exception:
        return True
    made = list(tensors_of(again))
    if index >= len(made) or made[index].shape != reference.shape:
        return True
    difference = (made[index] - reference).norm()
    return not bool(difference <= SAME * reference.norm()) or not bool(reference.any())
