"""What makes a compiled program agree with the eager one: tried, the least intrusive first."""

from __future__ import annotations

import contextlib
import gc
import os
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from .backends import Graph
from .lines import line_of
from .search import Found
from .segments import calls, writes
from .settings import changed_settings

_MOST_SETTINGS = 6
_HALVES = (torch.float16, torch.bfloat16)


@dataclass(slots=True)
class Switch:
    """`changes`: of torch._inductor.config. `alone`: operators that are not compiled."""

    what: str
    changes: dict[str, Any] = field(default_factory=dict)
    alone: dict[tuple[int, bool], set[str]] = field(default_factory=dict)
    around: Callable[[], Any] = contextlib.nullcontext
    stage: str = "inductor"


def switches(found: Found | None, stage: str, graphs: list[Graph], place: str) -> list[Switch]:
    """Those that may help. `place`: file:line of what was found."""
    made: list[Switch] = []
    if stage == "decompositions" and found is not None:
        operator: Any = found.nodes[-1].target
        made.append(
            Switch(
                f"torch._inductor.decomposition.decompositions.pop(torch.ops.{operator}): without "
                "the decomposition",
                around=lambda: _without(operator),
            )
        )
    if stage in ("inductor", "decompositions"):
        made += [
            Switch(f"torch._inductor.config.{name} = {usual!r}, as torch has it", {name: usual})
            for name, usual in list(changed_settings().items())[:_MOST_SETTINGS]
        ]
        if any(_has_halves(each) for each in graphs):
            changes = {"emulate_precision_casts": True}
            made.append(Switch("torch._inductor.config.emulate_precision_casts = True", changes))
        changes = {"pattern_matcher": False}
        made.append(Switch("torch._inductor.config.pattern_matcher = False", changes))
    if stage == "inductor" and (found is not None or place):
        here = {each.key: _at_line(each, place) for each in graphs}
        if found is not None:
            here.setdefault(found.graph.key, set()).add(found.nodes[-1].name)
        at = f" around {place}" if place else ""
        made.append(Switch(f"torch.compiler.disable{at}", alone=here))
    return made


def _at_line(graph: Graph, place: str) -> set[str]:
    """Operators of file:line, also of its derivative."""
    return {
        each.name
        for each in calls(graph.module)
        if place and not writes(each) and "{}:{}".format(*line_of(each)) == place
    }


@contextlib.contextmanager
def disabled_at(place: str) -> Iterator[bool]:
    """The functions around file:line run as they are written, as under torch.compiler.disable.
    False where there is none.
    """
    import torch._dynamo.eval_frame as frames

    file, _, line = place.rpartition(":")
    found = [
        each
        for each in gc.get_objects()
        if type(each) is types.FunctionType  # a proxy may be dead
        and os.path.abspath(each.__code__.co_filename) == file
        and line.isdigit()
        and any(number == int(line) for _, _, number in each.__code__.co_lines())
    ]
    last = max((each.__code__.co_firstlineno for each in found), default=0)
    found = [each for each in found if each.__code__.co_firstlineno == last]
    marked: list[Any] = list(found)
    for each in marked:
        each._torchdynamo_disable = True
        frames.skip_code(each.__code__)
    try:
        yield bool(found)
    finally:
        for each in marked:
            del each._torchdynamo_disable


def _has_halves(graph: Graph) -> bool:
    return any(
        isinstance(each.meta.get("val"), torch.Tensor) and each.meta["val"].dtype in _HALVES
        for each in graph.module.graph.nodes
    )


@contextlib.contextmanager
def _without(operator: Any) -> Iterator[None]:
    """Inductor does not take this operator apart."""
    from torch._inductor import decomposition

    table: Any = decomposition.decompositions
    known = table.pop(operator, None)
    caches = [
        each
        for each in vars(decomposition).values()
        if callable(getattr(each, "cache_clear", None))
    ]
    for each in caches:
        each.cache_clear()
    try:
        yield
    finally:
        if known is not None:
            table[operator] = known
        for each in caches:
            each.cache_clear()
