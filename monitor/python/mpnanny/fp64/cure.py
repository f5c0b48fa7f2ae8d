"""The counterfactual: would the operator have been right in a wider type?

The operator is computed again in FP32 (FP64 where it ran in FP32) on the inputs that it had. If
that is right, the operator itself is what loses precision. If not, its inputs were wrong already:
then the operators that made them are computed again as well, one level after the other and along
the inputs whose error is large, until the result is right. Then each line is left out of that once:
what is left are the lines without any of which the result would not be right.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .call import tensors_of
from .comparison import compare
from .findings import INTEGERS, Cure
from .history import Held, Node
from .operators import COMPLEX, SOFTMAX
from .references import wide
from .thresholds import CURED

MOST_LEVELS = 24
MOST_NODES = 256


def _target(node: Node, made: torch.dtype) -> torch.dtype:
    """FP32 where something narrower goes in or is made, FP64 where that is FP32."""
    kinds = {held.alias.dtype for held in node.inputs()} | {made}
    narrow = any(each not in (torch.float32, torch.float64, torch.complex64) for each in kinds)
    return torch.float32 if narrow else torch.float64


def _convert(dtype: torch.dtype, target: torch.dtype) -> torch.dtype:
    if target is torch.float64:
        return wide(dtype)
    return torch.complex64 if dtype in COMPLEX else torch.float32


class Recomputation:
    """`nodes` are computed again in `target`, everything else is taken as it was held."""

    def __init__(self, nodes: set[int], target: torch.dtype) -> None:
        self._nodes = nodes
        self._target = target
        self._done: dict[int, list[torch.Tensor]] = {}

    def of(self, node: Node) -> list[torch.Tensor] | None:
        """The results of `node`; None where an input is gone."""
        for number, each in sorted(self._before(node).items()):
            results = self._results(each)
            if results is not None:
                self._done[number] = results
        return self._done.get(node.number)

    def _before(self, node: Node) -> dict[int, Node]:
        """`node`, and those of the nodes that have to be computed before it: a loop over a sequence
        makes a way of thousands of them, too long for Python to go down it by calls.
        """
        found = {node.number: node}
        below = [node]
        while below:
            for held in below.pop().inputs():
                producer = held.producer
                if producer is None or producer.number not in self._nodes:
                    continue
                if producer.number not in found and producer.number not in self._done:
                    found[producer.number] = producer
                    below.append(producer)
        return found

    def _results(self, node: Node) -> list[torch.Tensor] | None:
        if node.args is None:
            return None
        args = self._fill(node.args)
        kwargs = self._fill(node.kwargs)
        if args is None or kwargs is None:
            return None
        if node.operator.schema_name in SOFTMAX and len(args) > 2:
            args = (*args[:2], False)
        result = node.function(*args, **kwargs)
        if node.operator.written:
            result = [args[at] for at in node.operator.written if at < len(args)]
        return list(tensors_of(result))

    def _fill(self, value: Any) -> Any:
        if isinstance(value, Held):
            return self._value(value)
        if isinstance(value, torch.dtype) and (value.is_floating_point or value in COMPLEX):
            return _convert(value, self._target)
        if isinstance(value, (tuple, list)):
            made = [self._fill(each) for each in value]
            if any(new is None and old is not None for new, old in zip(made, value, strict=True)):
                return None
            return type(value)(made)
        if isinstance(value, dict):
            filled = {key: self._fill(each) for key, each in value.items()}
            if any(filled[key] is None and value[key] is not None for key in value):
                return None
            return filled
        return value

    def _value(self, held: Held) -> torch.Tensor | None:
        producer = held.producer
        alias = held.alias
        dtype = _convert(alias.dtype, self._target)
        if producer is not None and producer.number in self._nodes:
            results = self._done.get(producer.number)
            if results is None:
                return None
            for layout, result in zip(producer.outputs, results, strict=False):
                if layout.memory != held.memory:
                    continue
                whole = torch.empty_strided(
                    layout.shape, layout.stride, dtype=dtype, device=alias.device
                ).copy_(result)
                offset = alias.storage_offset() - layout.offset
                return whole.as_strided(alias.shape, alias.stride(), offset).clone()
        return self.entering(held)

    def entering(self, held: Held) -> torch.Tensor | None:
        """A value that is taken as it was held."""
        if not held.intact():
            return None
        return held.alias.to(_convert(held.alias.dtype, self._target), copy=True)


@dataclass(frozen=True, slots=True)
class Suspect:
    """What is to be right: result `index` of `node`, held as `dtype`, was to be `reference`.
    `error_of`: how wrong the results were of an operator of this step, by its number.
    """

    node: Node
    index: int
    reference: torch.Tensor
    kind: str
    dtype: torch.dtype
    error_of: Callable[[int], float]


def _error_of(result: torch.Tensor, reference: torch.Tensor, kind: str) -> float:
    if not result.is_floating_point() and not result.is_complex():
        result = result.to(torch.float64)  # indices
    found = compare(result, reference)
    if found is None or found.bad:
        return math.inf
    if kind == INTEGERS:
        return found.wrong_integers / max(1, found.numel)
    return found.error


def find_cure(suspect: Suspect, before: float, narrow: bool, deadline: float) -> Cure | str:
    """What makes the error `before` small; a text where nothing does. `narrow`: the error came in
    with 16 bits, so that FP32 may be enough. `deadline`: of time.thread_time().
    """
    bound = min(CURED * before, 0.25) if math.isfinite(before) else 0.05
    single = (torch.float32,) if narrow else ()
    targets = dict.fromkeys((*single, _target(suspect.node, suspect.dtype), torch.float64))
    for target in targets:
        for share in (0.25, 0.0):  # along the worst inputs; then along all
            if time.thread_time() > deadline:
                return "not found in the time that there was"
            found = _search(suspect, target, bound, share, deadline)
            if found is not None:
                nodes, after = found
                return _cure(nodes, target, before, after)
    return "not found"


def _search(
    suspect: Suspect, target: torch.dtype, bound: float, share: float, deadline: float
) -> tuple[dict[int, Node], float] | None:
    level = [suspect.node]
    nodes = {suspect.node.number: suspect.node}
    disabled: Any = getattr(torch._C, "_DisableAutocast", None)
    for _ in range(MOST_LEVELS):
        if time.thread_time() > deadline:
            return None
        with torch.no_grad(), disabled():
            results = Recomputation(set(nodes), target).of(suspect.node)
        if results is not None and suspect.index < len(results):
            after = _error_of(results[suspect.index], suspect.reference, suspect.kind)
            if after <= bound:
                return _needed(suspect, target, nodes, after, bound, deadline)
        level = _above(level, nodes, suspect.error_of, share)
        if not level or len(nodes) > MOST_NODES:
            return None
        nodes.update((each.number, each) for each in level)
    return None


def _needed(
    suspect: Suspect,
    target: torch.dtype,
    nodes: dict[int, Node],
    after: float,
    bound: float,
    deadline: float,
) -> tuple[dict[int, Node], float]:
    """Those of `nodes` without which it would not be right, line by line, and the error with them.
    A level of operators was taken as a whole, and not all of it is to blame.
    """
    lines = dict.fromkeys(nodes[number].site.source for number in sorted(nodes))
    for line in lines:
        if line == suspect.node.site.source or time.thread_time() > deadline:
            continue
        fewer = {number: each for number, each in nodes.items() if each.site.source != line}
        disabled: Any = getattr(torch._C, "_DisableAutocast", None)
        with torch.no_grad(), disabled():
            results = Recomputation(set(fewer), target).of(suspect.node)
        if results is None or suspect.index >= len(results):
            continue
        error = _error_of(results[suspect.index], suspect.reference, suspect.kind)
        if error <= bound:
            nodes, after = fewer, error
    return nodes, after


def _above(
    level: list[Node], nodes: dict[int, Node], error_of: Callable[[int], float], share: float
) -> list[Node]:
    """The operators that made the inputs of `level`: those whose error is at least `share` of the
    largest.
    """
    found: dict[int, Node] = {}
    for node in level:
        inputs = [held for held in node.inputs() if held.producer is not None]
        known = [(error_of(held.producer.number), held) for held in inputs if held.producer]
        worst = max((error for error, _ in known), default=0.0)
        for error, held in known:
            producer = held.producer
            if producer is None or producer.args is None or producer.number in nodes:
                continue
            if error >= share * worst:
                found[producer.number] = producer
                _whole_loop(producer, nodes, found)
    return list(found.values())


def _whole_loop(node: Node, nodes: dict[int, Node], found: dict[int, Node]) -> None:
    """Adds what the same line made on the way to `node`: a loop is one place."""
    below = [node]
    while below:
        for held in below.pop().inputs():
            producer = held.producer
            if producer is None or producer.args is None or producer.number in found:
                continue
            if producer.site.source == node.site.source and producer.number not in nodes:
                found[producer.number] = producer
                below.append(producer)


def _cure(nodes: dict[int, Node], target: torch.dtype, before: float, after: float) -> Cure:
    chosen = [nodes[number] for number in sorted(nodes)]
    lines = [node.site.source for node in chosen if node.site.source]
    return Cure(
        lines=list(dict.fromkeys(lines)),
        operators=list(dict.fromkeys(node.operator.name for node in chosen)),
        what=str(target).removeprefix("torch."),
        error_before=before,
        error_after=after,
    )
