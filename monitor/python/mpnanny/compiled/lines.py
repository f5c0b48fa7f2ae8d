"""What each line of the program gives, in a run and in the graphs of another: the first line that
gives something else, or that only one of both runs.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ..operators.places import is_users, pass_through
from ..programs import program
from . import outcome
from .comparing import wide

pass_through(__file__)

_TIMES = 8.0
_LEAST = {torch.float16: 2.0**-8, torch.bfloat16: 2.0**-5}
_OTHER_LEAST = 1e-5
_STARTS = (program.__file__, outcome.__file__)
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')

Line = tuple[str, int]


@dataclass(slots=True)
class Result:
    line: Line
    operator: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    sums: tuple[float, float]  # of the values, and of their sizes
    is_finite: bool


def line_of(node: fx.Node) -> Line:
    """The innermost line of the user's that a node comes from; ("", 0) if there is none."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or node.stack_trace or "")
    for file, line in reversed(frames):
        if is_users(file):
            return file, int(line)
    return "", 0


def _calling() -> Line:
    """The innermost line of the user's that runs, up to where the program is started."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if file in _STARTS:
            return "", 0
        if is_users(file):
            return os.path.abspath(file), frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return "", 0


def is_at(line: Line) -> bool:
    """Whether this line of the user's runs."""
    return _calling() == line


class Lines(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.results: list[Result] = []
        self.node: fx.Node | None = None  # that runs at this moment
        self.writers: dict[int, Result] = {}  # of memory, the newest ones
        self.nested: list[Line] = []  # of graphs in graphs, which run as a whole

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if func.is_view:
            return made
        line = _calling() if self.node is None else line_of(self.node)
        if not line[0]:
            return made
        for each in tree_leaves(made):
            if isinstance(each, torch.Tensor) and each.numel():
                values = wide(each)
                finite = values.isfinite()
                kept = values[finite]
                sums = (float(kept.sum()), float(kept.abs().sum()))
                is_finite = bool(finite.all())
                made_here = Result(line, str(func), tuple(each.shape), each.dtype, sums, is_finite)
                self.results.append(made_here)
                self.writers[each.untyped_storage()._cdata] = made_here
        return made

    def through(self, module: fx.GraphModule, args: list[Any]) -> Any:
        """Runs a graph whose operators are heard with the lines that they come from."""
        for name, each in module.named_modules():
            if name and isinstance(each, fx.GraphModule):
                self.nested += [line_of(node) for node in each.graph.nodes]
        return _Heard(module, self).run(*args)


class _Heard(fx.Interpreter):
    def __init__(self, module: fx.GraphModule, lines: Lines) -> None:
        super().__init__(module)
        self._lines = lines

    def run(self, *args: Any, **kwargs: Any) -> Any:
        with self._lines:
            return super().run(*args, **kwargs)

    def run_node(self, n: fx.Node) -> Any:
        self._lines.node = n
        try:
            return super().run_node(n)
        finally:
            self._lines.node = None


def first_other(
    heard: Lines, compiled: Lines, noisy: list[list[Result]], has_breaks: bool
) -> tuple[Result, str] | None:
    """The first result that is not the eager run's, and how: `only_compiled`, `only_eager` or
    `values`. With graph breaks what runs between graphs was not heard; graphs in graphs are not
    heard line by line.
    """
    eager, other = heard.results, compiled.results
    known = {each.line for each in eager}
    for line in compiled.nested:
        if line[0] and line not in known:
            return Result(line, "", (), torch.float32, (0.0, 0.0), True), "only_compiled"
    has_breaks = has_breaks or bool(compiled.nested)
    only = next((each for each in other if each.line not in known), None)
    by_line: dict[Line, list[Result]] = {}
    for each in other:
        by_line.setdefault(each.line, []).append(each)
    for each in eager:
        here = by_line.get(each.line)
        if here is None:
            if only is not None:
                return only, "only_compiled"
            if has_breaks:
                continue
            return each, "only_eager"
        if only is not None and other.index(only) < other.index(here[0]):
            return only, "only_compiled"
        like = [one for one in here if one.shape == each.shape and one.dtype == each.dtype]
        if like and not any(_is_near(each, one, noisy) for one in like):
            return each, "values"
    return (only, "only_compiled") if only is not None else None


def _is_near(each: Result, one: Result, noisy: list[list[Result]]) -> bool:
    if each.is_finite != one.is_finite:
        return False
    size = each.sums[1]
    allowed = _LEAST.get(each.dtype, _OTHER_LEAST) * size
    for run in noisy:
        same = [
            other
            for other in run
            if other.line == each.line
            and other.operator == each.operator
            and other.shape == each.shape
        ]
        apart = min((abs(other.sums[0] - each.sums[0]) for other in same), default=0.0)
        allowed = max(allowed, _TIMES * apart)
    return all(abs(a - b) <= allowed for a, b in zip(each.sums, one.sums, strict=True))
