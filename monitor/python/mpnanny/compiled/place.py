"""Where a compiled program parts from the eager one, as an answer has it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from torch import fx

from .lines import line_of
from .search import Found


@dataclass(slots=True)
class Place:
    """Of what was found. `ops`: of a fusion or a cut, all of them."""

    op: str = ""
    module: str = ""
    source: str = ""
    phase: str = "forward"
    # kernel, fusion, decomposition, cut, output, only_compiled, only_eager, values, rounding
    way: str = ""
    ops: list[str] = field(default_factory=list)
    errors: tuple[float, float] | None = None
    error: float | None = None


def place_of(found: Found) -> Place:
    """Of an operator or a fusion that was found in a graph."""
    node = found.nodes[-1]
    file, line = line_of(node)
    if not file:  # a node that the compiler made: the nearest before it that has a line
        for each in reversed(found.nodes):
            file, line = line_of(each)
            if file:
                break
    ops = list(dict.fromkeys(_operator(each) for each in found.nodes))
    return Place(
        _operator(node),
        module_of(node),
        f"{file}:{line}" if file else "",
        "backward" if found.graph.is_backward else "forward",
        found.way,
        ops,
        found.errors,
        None if found.parted is None else found.parted.error,
    )


def _operator(node: fx.Node) -> str:
    """As the program calls it: what a compiler takes apart has the name of the whole."""
    original = node.meta.get("original_aten")
    return str(original if original is not None else node.target)


def module_of(node: fx.Node) -> str:
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    path = next((each[0] for each in reversed(list(stack.values()))), "")
    return re.sub(r"^L\['\w+'\]\.?", "", path).replace("['", ".").replace("']", "").strip(".")
