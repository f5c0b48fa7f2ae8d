"""What shows where a finding comes from: one element, with what the operator was given there and
its reference, and the lines that made what it was given.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from .call import Result
from .history import Held, Node
from .places import Site

MOST_OPERANDS = 4
MOST_LINES = 5
CAME_IN = 0.5  # of an error: an operator before which there was less has made it
MOST_NODES = 200  # that are looked through for them


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


def lines_before(node: Node) -> list[tuple[str, str]]:
    """The lines of this step whose results led to the inputs of `node`, as (operator, "file:line"),
    the nearest first, without its own line.
    """
    lines: dict[str, str] = {}
    level, seen = [node], {node.number}
    while level and len(lines) < MOST_LINES and len(seen) < MOST_NODES:
        made = {
            held.producer.number: held.producer
            for one in level
            for held in one.inputs()
            if held.producer is not None and held.producer.number not in seen
        }
        level = [made[number] for number in sorted(made, reverse=True)]
        seen.update(made)
        for each in level:
            source = each.site.source
            if source and source != node.site.source:
                lines.setdefault(source, each.site.forward or each.site.operator)
    return [(operator, source) for source, operator in list(lines.items())[:MOST_LINES]]


@dataclass(frozen=True, slots=True)
class CameIn:
    """An operator in which an error came in that is too small there to be a finding."""

    site: Site
    dtype: str  # "bfloat16", or "float32 → bfloat16"
    error: float

    def detail(self) -> dict[str, Any]:
        site = self.site
        return {
            "operator": site.operator,
            "source": site.source,
            "phase": site.phase,
            "dtype": self.dtype,
            "error": self.error,
        }


def came_in(node: Node) -> CameIn | None:
    """Where the error that `node` works on came in: the operator before it that made most of it,
    out of less.
    """
    found: Held | None = None
    made = node
    for _ in range(MOST_NODES):
        before = [each for each in made.inputs() if each.producer is not None]
        worst = max(before, key=_error_of, default=None)
        if worst is None or worst.producer is None or _error_of(worst) <= 0:
            break
        if found is not None and _error_of(worst) < CAME_IN * _error_of(found):
            break
        found, made = worst, worst.producer
    return None if found is None else CameIn(made.site, types_of(made, found.alias), made.error)


def _error_of(held: Held) -> float:
    return 0.0 if held.producer is None else held.producer.error


def types_of(node: Node, result: torch.Tensor) -> str:
    """What `node` made of what."""
    return type_words((each.alias.dtype for each in node.inputs()), result.dtype)


def type_words(inputs: Iterable[torch.dtype], result: torch.dtype) -> str:
    """ "bfloat16", or "float32 → bfloat16"."""
    kinds = list(dict.fromkeys(str(each)[6:] for each in inputs))
    own = str(result)[6:]
    return own if kinds in ([], [own]) else f"{', '.join(kinds[:3])} → {own}"
