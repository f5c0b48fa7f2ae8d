"""The shortest stretch of a program that parts when it alone is compiled. It is measured: with the
stretch compiled a result of the whole program parts, with less of it compiled that does not.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from ..programs.program import Program
from .comparing import Parted
from .cutting import Cut, regions_as_before
from .lines import line_of
from .outcome import Outcome, run
from .place import Place, module_of
from .search import Budget
from .settings import compiling

_MOST_LINES = 8  # of a stretch that still says where to look


def find_stretch(
    program: Program, stage: str, parted: Callable[[Outcome], list[Parted]], budget: Budget
) -> Place | None:
    """`parted`: what of a run's results is not the eager run's. None where the whole does not part
    in this way, or where no stretch of few lines does.
    """

    def run_with(cut: Cut) -> list[Parted] | None:
        """None where it cannot be compiled so: views of what is written into go together."""
        with compiling(), regions_as_before():
            made = run(program, wrap=lambda target: torch.compile(target, backend=cut))
        return parted(made) if made.raised is None else None

    whole = Cut(stage)
    apart = run_with(whole)
    if not apart:
        return None
    name, is_backward = apart[0].name, apart[0].phase == "backward"
    points = whole.points

    def parts(first: int, end: int) -> bool | None:
        values = run_with(Cut(stage, points[first], points[end]))
        return None if values is None else any(each.name == name for each in values)

    first, end = 0, len(points) - 1
    # What comes first in the pass that parts: in the backward pass that is the last node.
    if is_backward:
        first = nearest(lambda at: parts(at, end), first, end, budget)
    end = nearest(lambda at: parts(first, at), end, first, budget)
    if not is_backward:
        first = nearest(lambda at: parts(at, end), first, end, budget)
    return _place(whole.nodes[points[first] : points[end]], is_backward)


def nearest(parts: Callable[[int], bool | None], at: int, to: int, budget: Budget) -> int:
    """The point nearest to `to` at which it parts, as it does at `at` and does not at `to`."""
    left = list(range(min(at, to) + 1, max(at, to)))
    while left and budget.is_left:
        middle = left[len(left) // 2]
        found = parts(middle)
        if found is None:
            left.remove(middle)
            continue
        if found:
            at = middle
        else:
            to = middle
        left = [each for each in left if min(at, to) < each < max(at, to)]
    return at


def _place(nodes: list[fx.Node], is_backward: bool) -> Place | None:
    placed = [(line_of(each), each) for each in nodes]
    placed = [(line, each) for line, each in placed if line[0]]
    if not placed or len({line for line, _ in placed}) > _MOST_LINES:
        return None
    computing = [each for each in placed if each[1].target is not operator.getitem] or placed
    (file, line), last = computing[-1]
    ops = list(dict.fromkeys(_operator(each) for _, each in computing))
    phase = "backward" if is_backward else "forward"
    return Place(_operator(last), module_of(last), f"{file}:{line}", phase, "cut", ops)


def _operator(node: fx.Node) -> str:
    """`aten.mul` of torch.mul, of operator.mul and of the method."""
    target: Any = node.target
    if isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return str(target)
    name: str = target if isinstance(target, str) else getattr(target, "__name__", str(target))
    return f"aten.{name}" if hasattr(torch.ops.aten, name) else name
