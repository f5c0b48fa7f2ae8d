"""The comparison as a whole: eager, with noise, compiled; where they part and at which stage of the
compiler; who is nearer to FP64; what removes it.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from ..operators.places import is_users
from ..programs.problem import Problem, users_line
from ..programs.program import Program
from .backends import STAGES, Backend, Graph
from .breaks import graph_breaks
from .comparing import Parted, error_of, is_large, lost
from .exact import exact_values
from .lines import Line, Lines, first_other, is_at
from .noise import Noise
from .outcome import Outcome, parted, run, train
from .place import Place, place_of
from .search import Budget, Found, find, find_decomposition, outputs_part
from .settings import check_compiler, compiling
from .stretch import find_stretch
from .switches import Switch, disabled_at, switches

MOST_SECONDS = 240.0
_MORE_NOISES = 12
_MOST_LINES = 64
_GONE = 0.1  # of the error that a switch may leave

Say = Callable[[float, str], None]


@dataclass(slots=True)
class Comparison:
    program: Program
    eager: Outcome
    compiled: Outcome
    parted: list[Parted] = field(default_factory=list)
    stage: str = ""
    place: Place | None = None
    switch: Switch | None = None
    errors: tuple[float, float] | None = None  # of the first value that parts, without and with it
    graphs: int = 0
    breaks: list[dict[str, str]] = field(default_factory=list)
    steps: list[tuple[float, float]] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    limits: list[str] = field(default_factory=list)


class AgainstEager:
    """Of one program. Raises Problem where it does not run as it is written."""

    def __init__(self, program: Program, say: Say, seconds: float = MOST_SECONDS) -> None:
        self._program = program
        self._say = say
        self._budget = Budget(seconds)
        self._noisy: list[Outcome] = []
        self._trained: list[Outcome] = []
        self._exact: dict[str, torch.Tensor] = {}

    def compare(self) -> Comparison:
        check_compiler(self._program.options.device)
        self._say(0.02, "as it is written")
        began = time.perf_counter()
        eager = self._eagerly()
        middle = time.perf_counter()
        if eager.raised is None:
            self._noise(4)
        self._say(0.1, "compiled")
        backend = Backend()
        begins = time.perf_counter()
        with compiling():
            compiled = run(self._program, wrap=_wrap(backend))
        made = Comparison(self._program, eager, compiled)
        made.seconds = {"eager": middle - began, "compiled": time.perf_counter() - begins}
        made.graphs = len(backend.dynamo)
        if eager.raised is not None:
            if compiled.raised is not None:
                raise _does_not_run(self._program, eager.raised) from eager.raised
            made.stage = "dynamo"
        elif compiled.raised is not None:
            self._raised(made)
        else:
            self._values(made, backend)
        if made.graphs > 1:
            with compiling():
                made.breaks = graph_breaks(self._program)
        return made

    def _eagerly(self) -> Outcome:
        made = run(self._program)
        if made.raised is not None and self._program.inputs_need_gradient:
            self._program.inputs_need_gradient = False  # it writes its inputs
            again = run(self._program)
            if again.raised is None:
                return again
            self._program.inputs_need_gradient = True
        return made

    def _noise(self, count: int) -> None:
        for _ in range(count):
            one = run(self._program, noise=Noise(len(self._noisy)))
            if one.raised is None:
                self._noisy.append(one)

    def _part(self, eager: Outcome, other: Outcome) -> list[Parted]:
        found = parted(eager, other, self._noisy, self._exact)
        if found and len(self._noisy) < _MORE_NOISES:
            self._noise(_MORE_NOISES)  # a choice that flips seldom
            self._exact = exact_values(self._program)
            found = parted(eager, other, self._noisy, self._exact)
        return found or self._lost(eager, other)

    def _lost(self, eager: Outcome, other: Outcome) -> list[Parted]:
        """What is far apart although roundings explain it, and right in one of both."""
        names = [
            name
            for name, value in eager.values.items()
            if is_large(value, other.values.get(name)) and not name.endswith("afterwards")
        ]
        if not names:
            return []
        self._exact = self._exact or exact_values(self._program)
        found = [
            lost(name, eager.phases[name], eager.values[name], other.values[name], exact)
            for name in names
            if (exact := self._exact.get(name)) is not None
        ]
        return [each for each in found if each is not None]

    # --- values ---

    def _values(self, made: Comparison, backend: Backend) -> None:
        made.parted = self._part(made.eager, made.compiled)
        if not made.parted and self._program.options.steps:
            self._steps(made)
            return
        if not made.parted:
            return
        self._say(0.4, "which part of the compiler")
        found = self._locate(made, backend.graphs)
        self._say(0.8, "what removes it")
        self._switch(made, found, backend.graphs)

    def _locate(self, made: Comparison, graphs: list[Graph]) -> Found | None:
        """Fills in the stage and the place."""
        autograd: list[Graph] = []
        for stage in STAGES[:-1]:
            backend = Backend(stage)
            with compiling():
                other = run(self._program, wrap=_wrap(backend))
            if stage == "autograd":
                autograd = backend.graphs
            if other.raised is not None or self._same_parts(made, other):
                made.stage = stage
                break
        else:
            made.stage = "inductor"
        self._say(0.5, "which operator")
        if made.stage == "inductor":
            found = self._in_graphs(graphs)
        elif made.stage == "decompositions":
            with compiling():
                found = find_decomposition(autograd, self._budget)
        else:
            found = None
        if found is not None and found.way != "output":
            made.place = place_of(found)
            return found
        if found is None and made.parted[0].by_rounding:
            made.place = self._by_rounding(made)
            return None
        made.place = self._by_cut(made)
        if made.place is not None:
            return None  # an output only shows it
        made.place = place_of(found) if found is not None else self._by_lines(made)
        return found

    def _by_cut(self, made: Comparison) -> Place | None:
        """The shortest stretch that parts when it alone is compiled. What Dynamo has traced
        otherwise is other as it is written, too.
        """
        if made.stage == "dynamo":
            return None
        parted = partial(self._same_parts, made)
        return find_stretch(self._program, made.stage, parted, self._budget.half())

    def _by_rounding(self, made: Comparison) -> Place | None:
        """The first line whose own roundings alone move the result by half as far."""
        first = made.parted[0]
        heard = Lines()
        eager = run(self._program, mode=heard)
        operators: dict[Line, str] = {}
        for each in heard.results:
            operators[each.line] = each.operator
        for line, operator in list(operators.items())[:_MOST_LINES]:
            if not self._budget.is_left:
                return None
            noise = Noise(0, where=partial(is_at, line))
            other = run(self._program, noise=noise).values.get(first.name)
            if other is None or first.name not in eager.values:
                continue
            if error_of(other, eager.values[first.name]) >= first.error / 2:
                return Place(operator, "", f"{line[0]}:{line[1]}", "forward", "rounding")
        return None

    def _same_parts(self, made: Comparison, other: Outcome) -> list[Parted]:
        """Of what parts in the whole what parts in `other` already."""
        names = {each.name for each in made.parted}
        return [each for each in self._part(made.eager, other) if each.name in names]

    def _in_graphs(self, graphs: list[Graph]) -> Found | None:
        for graph in sorted(graphs, key=lambda each: each.order):
            others = outputs_part(graph)
            if not others:
                continue
            with compiling():
                found = find(graph, self._budget)
            if found is not None:
                return found
            nodes = [each for each in graph.module.graph.nodes if each.name == others[0].name]
            return Found(graph, nodes, others[0], None, "output")
        return None

    def _by_lines(self, made: Comparison) -> Place | None:
        """The first line that gives something else."""
        stage = "decompositions" if made.stage == "inductor" else made.stage
        eager = Lines()
        outcome = run(self._program, mode=eager)
        noisy = []
        for at in range(2):
            one = Lines()
            run(self._program, noise=Noise(at), mode=one)
            noisy.append(one.results)
        heard = Lines()
        backend = Backend(stage, keep=False, wrap=heard.through)
        with compiling():
            run(self._program, wrap=_wrap(backend))
        found = first_other(eager, heard, noisy, made.graphs > 1)
        if found is None:  # the line that has made, or last written, what parts
            if made.parted[0].phase == "backward":
                return None  # memory of the forward pass that is a gradient's by now
            writer = eager.writers.get(outcome.memories.get(made.parted[0].name, 0))
            if writer is None:
                return None
            found = writer, "output"
        result, way = found
        return Place(result.operator, "", f"{result.line[0]}:{result.line[1]}", "forward", way)

    # --- switches ---

    def _switch(self, made: Comparison, found: Found | None, graphs: list[Graph]) -> None:
        before = self._apart(made, made.compiled)
        place = made.place.source if made.place is not None else ""
        for each in switches(found, made.stage, graphs, place):
            if not self._budget.is_left:
                made.limits.append("switches_not_tried")
                return
            backend = Backend(each.stage, alone=each.alone, keep=False)
            made.tried.append(each.what)
            with compiling(**each.changes), each.around():
                other = run(self._program, wrap=_wrap(backend))
            if other.raised is None and not self._same_parts(made, other):
                made.switch, made.errors = each, (before, self._apart(made, other))
                return
        at = STAGES.index(made.stage) if made.stage in STAGES else 0
        words = {1: "eager", 2: "aot_eager", 3: "aot_eager_decomp_partition"}
        if at in words:
            backend = Backend(STAGES[at - 1], keep=False)
            with compiling():
                other = run(self._program, wrap=_wrap(backend))
            if other.raised is None and not self._same_parts(made, other):
                made.switch = Switch(f'torch.compile(…, backend="{words[at]}")')
                made.errors = (before, self._apart(made, other))
                return
        self._disable(made, place, before)

    def _disable(self, made: Comparison, place: str, before: float) -> None:
        """The function of the line is left as it is written."""
        where = f" around the function of {place}" if place else ""
        made.switch = Switch(f"torch.compiler.disable{where}")
        made.errors = None
        if not place:
            return
        with compiling(), disabled_at(place) as is_there:
            if not is_there:
                return
            other = run(self._program, wrap=_wrap(Backend(keep=False)))
        if other.raised is None:
            made.tried.append(made.switch.what)
            made.errors = (before, self._apart(made, other))
            if self._same_parts(made, other):
                made.switch, made.errors = None, None

    def _apart(self, made: Comparison, other: Outcome) -> float:
        name = made.parted[0].name
        value, eager = other.values.get(name), made.eager.values.get(name)
        if value is None or eager is None or value.dtype != eager.dtype:
            return math.inf
        return error_of(value, eager)

    # --- training steps, and what raises ---

    def _steps(self, made: Comparison) -> None:
        self._say(0.5, "training steps")
        eager = train(self._program)
        if eager.raised is not None:
            if isinstance(eager.raised, Problem):
                raise eager.raised
            made.limits.append("steps_do_not_run")
            return
        noisy = [train(self._program, noise=Noise(at)) for at in range(4)]
        noisy = [each for each in noisy if each.raised is None]
        with compiling():
            compiled = train(self._program, wrap=_wrap(Backend(keep=False)))
        made.steps = [
            (float(a), float(b))
            for a, b in zip(eager.values.values(), compiled.values.values(), strict=False)
        ]
        if compiled.raised is not None:
            made.compiled.raised = compiled.raised
            made.stage = "inductor"
            return
        made.parted = parted(eager, compiled, noisy)
        if not made.parted:
            return
        for stage in STAGES[:-1]:
            with compiling():
                other = train(self._program, wrap=_wrap(Backend(stage, keep=False)))
            if other.raised is not None or parted(eager, other, noisy):
                made.stage = stage
                return
        made.stage = "inductor"

    def _raised(self, made: Comparison) -> None:
        """What stops only when it is compiled: the first stage that stops."""
        made.stage = "inductor"
        for stage in STAGES[:-1]:
            with compiling():
                other = run(self._program, wrap=_wrap(Backend(stage, keep=False)))
            if other.raised is not None:
                made.stage = stage
                break
        error = made.compiled.raised
        assert error is not None
        if made.stage == "inductor" and not _compiles(self._program.options.device):
            raise Problem(
                f"torch.compile does not work here: {str(error).strip()[:400]}",
                "Its C++ compiler or triton is broken or lacks something (Python.h, OpenMP): try "
                "`python -c 'import torch; torch.compile(torch.sin)(torch.ones(2))'`.",
                "Unavailable",
            ) from error
        words = str(error)
        source, _ = users_line(error, "")
        if not source:
            frames = re.findall(r'File "([^"]+)", line (\d+)', words)
            lines = [f"{file}:{line}" for file, line in frames if is_users(file)]
            source = lines[-1] if lines else ""
        named = re.search(r"target: (\S+)", words)
        made.place = Place(named[1] if named else "", "", source, "forward", "raised")
        words_of = {"autograd": "eager", "decompositions": "aot_eager"}
        words_of["inductor"] = "aot_eager_decomp_partition"
        if made.stage in words_of:
            made.switch = Switch(f'torch.compile(…, backend="{words_of[made.stage]}")')


def _wrap(backend: Backend) -> Callable[[Any], Any]:
    return lambda target: torch.compile(target, backend=backend)


def _compiles(device: str) -> bool:
    """Whether anything can be compiled here."""
    try:
        with compiling():
            torch.compile(lambda x: x.sin() + 1)(torch.ones(2, device=device))
        return True
    except Exception:
        return False


def _does_not_run(program: Program, error: Exception) -> Problem:
    from ..programs.problem import fails_in_full_precision

    if isinstance(error, Problem):
        return error
    found = fails_in_full_precision(program, error)
    words = found.message.replace("stops in FP32 already", "stops as it is written already")
    return Problem(words, found.advice, found.kind)
