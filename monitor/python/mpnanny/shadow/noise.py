"""References that are 0 but for rounding: errors beside them mean nothing."""

from __future__ import annotations

from typing import Any

import torch

from .call import tensors_of
from .comparison import HALF_ULP, OF_FP64, OF_PRODUCTS
from .history import Held, Node
from .references import References
from .result import Result

SAME = 1e-6  # relative difference of two references that are the same
SINGLE = 8.0  # times the rounding that is usual, of a single element
MOST_NODES = 64  # that are looked through for gradients

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


def is_noise_of_elements(result: Result, references: References, error: float) -> bool:
    """Whether what is wrong by more than `error` are elements that what led to it in this phase has
    as 0 but for rounding, among others that are not: an optimizer that divides by a gradient's own
    size makes whole updates of them, as of the bias of keys, on which no softmax depends.
    """
    call, held, reference = result.call, result.held, result.reference
    noise = torch.zeros(held.shape, dtype=torch.bool, device=held.device)
    level, seen = [call.node], {call.node.number}
    while level and len(seen) < MOST_NODES:
        entered = [each for node in level for each in _at(node, call.position)]
        for each in entered:
            if each.alias.shape == held.shape and each.intact():
                noise |= _is_noise(each.alias, references)
        level = []
        for each in entered:
            made = each.producer
            if made is not None and made.site.phase == call.site.phase and made.number not in seen:
                seen.add(made.number)
                level.append(made)
    if not bool(noise.any()):
        return False
    wrong = (held.to(torch.float64) - reference).masked_fill_(noise, 0.0).norm()
    return bool(wrong <= error * reference.norm())


def _at(node: Node, position: int | None) -> list[Held]:
    """The floating-point tensors that went into `node`, of lists those at `position`."""
    found: list[Held] = []
    for each in [*(node.args or ()), *(node.kwargs or {}).values()]:
        if isinstance(each, (list, tuple)) and position is not None and position < len(each):
            each = each[position]
        if isinstance(each, Held):
            found.append(each)
    return found


def _is_noise(tensor: torch.Tensor, references: References) -> torch.Tensor:
    """For each element, as Comparison.is_noise() for a whole tensor."""
    entry, reference = references.entry(tensor), references.of(tensor)
    if entry is None or reference is None:
        return torch.zeros(tensor.shape, dtype=torch.bool, device=tensor.device)
    least = max(OF_FP64 / HALF_ULP.get(tensor.dtype, 2.0**-24), entry.rounding)
    difference = tensor.detach().to(torch.float64) - reference
    is_small = reference.abs() <= SINGLE * least * difference.abs()
    return is_small & (difference != 0) & difference.isfinite()  # what overflowed is no rounding
