"""Elements of a backward pass at which a derivative is infinite, and what made the 0 that an
infinity is multiplied by.

Derivatives are made of few operators, and of those only a division, a root's reciprocal, a power
and a logarithm are infinite out of finite values: where an operand is 0. What went into the forward
operator at that element says at which input its derivative is so (0 of a root, 1 of acos). 0 times
infinity is NaN, and the 0 comes from another line as a rule: the gradient of what a `where` or a
mask has not chosen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch

from .call import Input, Result
from .history import Held, Node
from .references import References

# Of an operator's floating-point operands the one at whose 0 it is infinite.
_DENOMINATORS = {
    "aten::div": 1,
    "aten::reciprocal": 0,
    "aten::rsqrt": 0,
    "aten::pow": 0,
    "aten::log": 0,
}
MOST_NODES = 32  # that are looked through for the line which made a 0

Place = tuple[int, ...]


def singular(
    result: Result, history: Iterable[Node], references: References
) -> tuple[bool, float, float, str, str] | None:
    """Of the first element whose derivative is infinite: True, what went into the forward operator
    there and its reference (NaN where that is not known), then operator and line of a 0 that it
    meets, or "". Of the first one where an infinity meets a 0: False, and those two.
    `history`: the operators of the step, the newest first.
    """
    call, held = result.call, result.held
    if torch.Tag.pointwise not in getattr(call.function, "tags", ()) or call.operator.is_list:
        return None
    if held.is_complex():
        return None
    read = call.sources()
    at = _DENOMINATORS.get(call.operator.schema_name)
    if at is not None and at < len(read):
        place = _first(~held.isfinite() & (_of_shape(read[at].held, held.shape) == 0), result)
        if place is not None:
            others = [each for number, each in enumerate(read) if number != at]
            zero = next((each for each in others if _at(each.held, held.shape, place) == 0), None)
            entered, exact = _entered(result, history, references, place)
            return (True, entered, exact, *_made_zero(result, zero, place))
    for each in read:
        place = _first(held.isnan() & (_of_shape(each.held, held.shape) == 0), result)
        if place is not None:
            return (False, math.nan, math.nan, *_made_zero(result, each, place))
    return None


def _of_shape(tensor: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    try:
        return tensor.expand(shape)
    except RuntimeError:
        return torch.full((), math.nan, device=tensor.device).expand(shape)


def _first(chosen: torch.Tensor, result: Result) -> Place | None:
    """The first element that is chosen; of those one that is finite in the reference, if any is."""
    apart = chosen & result.reference.isfinite()
    found = torch.nonzero(apart if bool(apart.any()) else chosen)
    return tuple(found[0].tolist()) if len(found) else None


def _at(tensor: torch.Tensor, shape: torch.Size, place: Place) -> float:
    try:
        return float(tensor.expand(shape)[place].item())
    except RuntimeError:  # no operand of the same element
        return math.nan


def _entered(
    result: Result, history: Iterable[Node], references: References, place: Place
) -> tuple[float, float]:
    """What went into the forward operator at `place`, and its reference."""
    site, shape = result.call.site, result.held.shape
    for node in history:
        if node.site.phase == "backward" or node.site.source != site.source:
            continue
        if node.operator.name != site.forward or node.site.module != site.module:
            continue
        first = next(iter(node.inputs()), None)
        if first is None or not first.intact() or first.alias.shape != shape:
            continue
        reference = references.of(first.alias)
        exact = math.nan if reference is None else _at(reference, shape, place)
        return _at(first.alias, shape, place), exact
    return math.nan, math.nan


def _made_zero(result: Result, zero: Input | None, place: Place) -> tuple[str, str]:
    """The forward operator and the line whose backward pass has made the 0 of an operand."""
    if zero is None:
        return "", ""
    node, shape = zero.node, result.held.shape
    made = None
    for _ in range(MOST_NODES):
        if node is None or node.site.phase != "backward":
            break
        made = node
        came_in = [each for each in node.inputs() if _of_backward(each)]
        # A sum or a view has the element elsewhere: whatever made a 0 at all is followed there.
        if not came_in or not all(_has_zero(each, shape, place) for each in came_in):
            break
        node = came_in[0].producer
    if made is None or not made.site.source:
        return "", ""
    return made.site.forward, made.site.source


def _of_backward(held: Held) -> bool:
    return held.producer is not None and held.producer.site.phase == "backward"


def _has_zero(held: Held, shape: torch.Size, place: Place) -> bool:
    if not held.intact():
        return False
    values: Any = held.alias
    if values.shape == shape:
        return bool(values[place] == 0)
    return bool((values == 0).any())
