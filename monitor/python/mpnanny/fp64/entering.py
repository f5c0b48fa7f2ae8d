"""Whether what was rounded before a step decides that an operator gives NaN or Inf there.

The FP64 reference starts from values as they are held. Those may have been rounded before
(uncertainty): log(1 - a) of an `a` that was 0.9999 and became 1 fails in FP64, too. So the operator
and what led to it in this step are computed again in FP64 with every such value a quarter of an ulp
larger, and smaller: still values that round to what is held. First all move by the same factor,
then each element by its own: what is undefined for any values stays so, as zeros stay zeros.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from .cure import Recomputation
from .history import Held, Node
from .uncertainty import Kept, moved

MOST_NODES = 256
MOST_LOOKED_AT = 4096  # elements
FEW_VALUES = 4
# By how many ulps values move, and whether each element has a sign of its own.
_WAYS = ((-0.25, False), (0.25, False), (0.25, True), (-0.25, True))
NOT_WHOLE = "not known: not all that led to it was computed in this step"


class _Moved(Recomputation):
    """In FP64, from uncertain values that are `ulps` of theirs larger."""

    def __init__(self, nodes: set[int], ulps: float, apart: bool, kept: Kept) -> None:
        super().__init__(nodes, torch.float64)
        self._ulps = ulps
        self._apart = apart
        self._kept = kept

    def _fill(self, value: Any) -> Any:
        if type(value) is float:
            return value * (1 + self._ulps * self._kept.of_number(value))
        return super()._fill(value)

    def entering(self, held: Held) -> torch.Tensor | None:
        value = super().entering(held)
        if value is None or held.producer is not None or not held.ulp:
            return value
        return moved(value, held.ulp, self._ulps * _signs(held) if self._apart else self._ulps)


def _signs(held: Held) -> torch.Tensor:
    """1 or -1 for each element of memory, the same for all views of it. A few values that recur, as
    of a constant, are not others that were rounded to the same: equal ones move alike.
    """
    alias = held.alias
    salt = 7919 * (held.memory >> 4 & 0xFFFF)
    if len(torch.unique(alias.detach().flatten()[:MOST_LOOKED_AT])) <= FEW_VALUES:
        of_values = alias.detach().to(torch.float64).view(torch.int64) >> 20
        return ((of_values + salt) * 2654435761 >> 11 & 1) * 2 - 1
    count = alias.untyped_storage().nbytes() // alias.element_size()
    at = torch.arange(count, device=alias.device) + salt
    signs = ((at * 2654435761) >> 11 & 1) * 2 - 1
    return signs.as_strided(alias.shape, alias.stride(), alias.storage_offset())


def decides(node: Node, index: int, held: torch.Tensor, doubt: bool, kept: Kept) -> bool | str:
    """`held`: result `index` of `node`, some of whose elements are not finite. Whether they are
    finite with values that round to those that came in, where each element moves by itself whether
    one of them is; a text where that cannot be told. `doubt`:
    something that led to it was computed before this step.
    """
    nodes, is_whole = _above(node)
    entered = [each for one in nodes.values() for each in one.read() if each.producer is None]
    uncertain = [each.ulp for each in entered if each.ulp]
    numbers = [kept.of_number(each) for one in nodes.values() for each in one.numbers()]
    uncertain += [each for each in numbers if each]
    if any(map(math.isinf, uncertain)):
        return NOT_WHOLE
    is_known = is_whole or not doubt
    if uncertain:
        bad = ~torch.isfinite(held)
        disabled = torch._C._DisableAutocast
        for way in _WAYS:
            with torch.no_grad(), disabled():
                results = _Moved(set(nodes), *way, kept).of(node)
            if results is None or index >= len(results) or results[index].shape != bad.shape:
                is_known = not doubt
                break
            finite = torch.isfinite(results[index][bad])
            if bool(finite.any() if way[1] else finite.all()):
                return True
    return False if is_known else NOT_WHOLE


def _above(node: Node) -> tuple[dict[int, Node], bool]:
    """`node` and the operators of this step that led to it, the nearest ones; whether all did."""
    nodes = {node.number: node}
    level, is_whole = [node], node.args is not None
    while level:
        made = [held.producer for one in level for held in one.inputs()]
        level = []
        for each in made:
            if each is None or each.number in nodes:
                continue
            if each.args is None or len(nodes) >= MOST_NODES:
                is_whole = False
                continue
            nodes[each.number] = each
            level.append(each)
    return nodes, is_whole
