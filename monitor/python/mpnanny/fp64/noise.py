"""References that are 0 but for rounding: errors beside them mean nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .call import Input, Result, tensors_of
from .comparison import Comparison, least_of_noise
from .dependencies import Cut
from .device_figures import Stretches, flat
from .history import Held, Node
from .references import Entry, References
from .thresholds import OF_FP64

SAME = 1e-6  # relative difference of two references that are the same
SINGLE = 8.0  # times the rounding that is usual, of a single element
MOST_NODES = 64  # that are looked through for gradients
MOST_SINGLE = 1 << 16  # elements of a gradient that are looked at one by one
LEAST_SHARE = 0.01  # of them, that cancel out by design: fewer have come to 0 by accident

_DIFFERENCES = frozenset(("aten::sub", "aten::rsub", "aten::add"))
_SUMS = frozenset(("aten::sum", "aten::mean"))


def depends_on_noise(result: Result, noise: list[Input]) -> bool:
    """Whether the reference would be another one if its inputs that are 0 but for rounding
    (`noise`) were 0: the gradient of a bias before a normalisation, divided by its own size, is.
    exp() of such a difference is 1 either way, and what is held instead is an error.
    """
    call, index, reference = result.call, result.index, result.reference
    if call.written or call.operator.is_list:
        return True
    zeroed = {id(each.reference) for each in noise}

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


def is_noise_of_elements(
    result: Result, references: References, rounding: Callable[[Entry], float], error: float
) -> bool:
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
                noise |= _is_noise(each.alias, references, rounding)
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


@dataclass(slots=True)
class Single:
    """A gradient of which single elements may cancel out."""

    held: torch.Tensor
    reference: torch.Tensor
    usual: float  # the size of an element's error
    least: float  # part of it, below which a reference is its own rounding


def cancelled_of(
    gradient: torch.Tensor,
    found: Comparison,
    references: References,
    rounding: Callable[[Entry], float],
    zero: Cut | None,
) -> Single | bool:
    """Whether a gradient is 0 but for rounding because its terms cancel out: the bias of keys, of a
    score that is subtracted from another one's, before a normalisation that takes the mean away; or
    that single elements have to be looked at. `found`: its comparison. `zero`: what made it 0,
    where it is 0.
    """
    entry, reference = references.entry(gradient), references.of(gradient)
    if entry is None or reference is None or found.bad or not found.numel:
        return False
    if found.max_held == 0:
        if zero is None:
            return False
        name = "::".join(zero.site.operator.split(".")[:2]).rstrip("_")
        is_sum = name in _SUMS or name in _DIFFERENCES
        if not is_sum or not zero.largest:  # a sum of nothing
            return False
        return found.max_reference <= OF_FP64 * zero.largest
    least = rounding(entry)
    if found.is_noise(gradient.dtype, least):
        return True
    if found.numel > MOST_SINGLE:
        return False  # single ones among so many are none that were made so
    usual = (found.squared_error / found.numel) ** 0.5
    return Single(gradient.detach(), reference, usual, _least(gradient.dtype, least))


def cancelled_shares(gradients: Sequence[Single]) -> torch.Tensor:
    """The part of the elements of each that are 0 but for rounding, where they lie."""
    stretches = Stretches([each.held.numel() for each in gradients], gradients[0].held.device)
    reference = flat([each.reference for each in gradients])
    difference = (flat([each.held for each in gradients]) - reference).abs()
    # What is 0 by now had terms as large as those beside it.
    difference = torch.maximum(
        difference, stretches.spread_host([each.usual for each in gradients])
    )
    least = stretches.spread_host([each.least for each in gradients])
    noise = (reference.abs() <= least * difference) & (reference != 0)
    return stretches.sum(noise) / stretches.numels


def _at(node: Node, position: int | None) -> list[Held]:
    """The floating-point tensors that went into `node`, of lists those at `position`."""
    found: list[Held] = []
    for each in [*(node.args or ()), *(node.kwargs or {}).values()]:
        if isinstance(each, (list, tuple)) and position is not None and position < len(each):
            each = each[position]
        if isinstance(each, Held):
            found.append(each)
    return found


def _is_noise(
    tensor: torch.Tensor, references: References, rounding: Callable[[Entry], float]
) -> torch.Tensor:
    """For each element, as Comparison.is_noise() for a whole tensor."""
    entry, reference = references.entry(tensor), references.of(tensor)
    if entry is None or reference is None:
        return torch.zeros(tensor.shape, dtype=torch.bool, device=tensor.device)
    difference = tensor.detach().to(torch.float64) - reference
    is_small = reference.abs() <= _least(tensor.dtype, rounding(entry)) * difference.abs()
    return is_small & (difference != 0) & difference.isfinite()  # what overflowed is no rounding


def _least(dtype: torch.dtype, rounding: float) -> float:
    """The part of its error that a single element's reference is at least, if it is not 0."""
    return SINGLE * least_of_noise(dtype, rounding)
