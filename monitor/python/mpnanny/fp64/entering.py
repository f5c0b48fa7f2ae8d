"""Whether the rounding of what came into a step decides that an operator gives NaN or Inf there.

The FP64 reference starts from values as they are held. What is held in 16 bits may have been
rounded before: log(1 - a) of an `a` that was 0.9999 and became 1 fails in FP64, too. So the
operator and what led to it in this step are computed again in FP64 with every 16-bit value that
came in a quarter of an ulp larger, and smaller: still values that round to what is held. All move
by the same factor: equal values stay equal, and zeros zeros, so that what is undefined for any
values stays so.
"""

from __future__ import annotations

import torch

from .cure import Recomputation
from .history import Held, Node

MOST_NODES = 64
_HALVES = (torch.float16, torch.bfloat16)


class _Moved(Recomputation):
    """In FP64, from 16-bit values that are `ulps` of theirs larger."""

    def __init__(self, nodes: set[int], ulps: float) -> None:
        super().__init__(nodes, torch.float64)
        self._ulps = ulps

    def entering(self, held: Held) -> torch.Tensor | None:
        value = super().entering(held)
        if value is not None and held.producer is None and held.alias.dtype in _HALVES:
            value *= 1 + self._ulps * torch.finfo(held.alias.dtype).eps
        return value


def decides(node: Node, index: int, held: torch.Tensor) -> bool:
    """`held`: result `index` of `node`, some of whose elements are not finite. Whether they are
    finite with values that round to those that came in.
    """
    nodes = _above(node)
    entered = [each for one in nodes.values() for each in one.inputs() if each.producer is None]
    if not any(each.alias.dtype in _HALVES for each in entered):
        return False
    bad = ~torch.isfinite(held)
    disabled = torch._C._DisableAutocast
    for ulps in (-0.25, 0.25):
        with torch.no_grad(), disabled():
            results = _Moved(set(nodes), ulps).of(node)
        if results is None or index >= len(results) or results[index].shape != bad.shape:
            return False
        if bool(torch.isfinite(results[index][bad]).all()):
            return True
    return False


def _above(node: Node) -> dict[int, Node]:
    """`node` and the operators of this step that led to it, the nearest ones."""
    nodes = {node.number: node}
    level = [node]
    while level and len(nodes) < MOST_NODES:
        made = [held.producer for one in level for held in one.inputs()]
        level = []
        for each in made:
            if each is not None and each.args is not None and each.number not in nodes:
                nodes[each.number] = each
                level.append(each)
    return nodes
