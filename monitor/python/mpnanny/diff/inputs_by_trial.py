"""Inputs for a function of which nothing is known but its code: they are tried. A trial that comes
further (more of the function's lines run, more operators) is a better start for the next one.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import math
import os
import random
import re
import signal
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import nn
from torch.overrides import TorchFunctionMode

from ..programs.problem import Problem
from ..programs.specification import Value, make_inputs
from ..programs.target import Target
from .choices import NORMAL, UNIFORM, Slots, slots_of_class, slots_of_function
from .uses import uses_of

MOST_SECONDS = 2.0  # of one trial
MOST_TRIALS = 1500
MOST_ELEMENTS = 1 << 16  # of a tensor
MOST_TOGETHER = 96  # ways to give the tensors of one call parts of one shape
SHAPES = (
    "8,16",
    "4,8,16",
    "2,3,16,16",
    "16",
    "2,4,8,16",
    "8,4",
    "8",
    "16,16",
    "2,16,8,8",
    "8,1",
    "8,2",
    "4,16,8",
    "2,1,16",
    "1,16,16",
    "2,256",
    "1",
    "",
)
_SHAPE = re.compile(r"\[([\d,]*)\]")
_LAYER = re.compile(r"linear\(.*\)")
_SEED = 11
INPUTS_SECONDS = 15.0
INPUTS_MADE = "inputs_were_made"  # among the limits


@dataclass(slots=True)
class TriedInputs:
    """Words of a call that runs and comes to the line, by argument."""

    words: dict[str, str]


@dataclass(slots=True)
class _Best:
    """The trial that came furthest: by lines of the function, then by operators."""

    reached: tuple[int, int] = (-1, 0)
    words: dict[str, str] = field(default_factory=dict)
    error: str = ""


class _TooLong(Exception):
    pass


class _Counting(TorchFunctionMode):
    """Calls of torch that have ended without an error."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self.calls += 1
        return result


@dataclass(slots=True)
class _Tried:
    """One trial. `lines`: of the file that ran; `calls`: of torch."""

    ended: bool
    lines: set[int]
    calls: int


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    def stop(number: int, frame: Any) -> None:
        raise _TooLong(f"it runs longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def inputs_for(target: Target, root: str) -> list[Value]:
    """Inputs with which a function or a module runs that was named without any. None where it takes
    none; raises Problem where none were found.
    """
    function: Any = target.make()
    described = function.forward if isinstance(function, nn.Module) else function
    try:
        parameters = inspect.signature(described).parameters.values()
    except (TypeError, ValueError):
        return []
    if not any(
        e.default is e.empty and e.kind in (e.POSITIONAL_OR_KEYWORD, e.KEYWORD_ONLY)
        for e in parameters
    ):
        return []
    code = getattr(described, "__code__", None)
    file = "" if code is None else code.co_filename
    trials = Trials([], file, INPUTS_SECONDS)
    found = trials.search(function, _source_of(described))
    if found is None:
        raise Problem(
            f"{target.name} needs inputs, and none were found with which it runs:"
            f" {trials.last_error}",
            "Give them: --input 'float32[8,16]~normal(0,1)', one for each argument.",
        )
    made = arguments_of(found.words, _SEED)
    return [Value(name, found.words[name], value) for name, value in made.items()]


def _source_of(function: Any) -> ast.FunctionDef | None:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return None
    first = tree.body[0] if tree.body else None
    return first if isinstance(first, ast.FunctionDef) else None


class Trials:
    """Of one suspected line. `last_error`: what the newest trial that failed said, and where."""

    def __init__(self, lines: list[int], file: str, budget_seconds: float) -> None:
        self._lines = set(lines)
        self._file = os.path.realpath(file)
        self._deadline = time.monotonic() + budget_seconds
        self._draw = random.Random(_SEED)
        self.last_error = "its arguments are not known"

    # --- one trial ---

    def _try(self, call: Callable[[], Any]) -> _Tried:
        """How far it came."""
        ran: set[int] = set()
        known: dict[Any, bool] = {}

        def trace(frame: Any, event: str, argument: Any) -> Any:
            code = frame.f_code
            ours = known.get(code)
            if ours is None:
                ours = known[code] = os.path.realpath(code.co_filename) == self._file
            if not ours:
                return None
            if event == "line":
                ran.add(frame.f_lineno)
            return trace

        before = sys.gettrace()
        counting = _Counting()
        try:
            with _limit(MOST_SECONDS), counting:
                sys.settrace(trace)
                call()
            return _Tried(True, ran, counting.calls)
        except (Exception, SystemExit) as error:  # a script that asks for arguments ends
            self.last_error = self._told(error)
            return _Tried(False, ran, counting.calls)
        finally:
            sys.settrace(before)

    def _told(self, error: BaseException) -> str:
        """The error, with the line of the code that raised it where that is in the file."""
        line, trace = 0, error.__traceback__
        while trace is not None:
            if os.path.realpath(trace.tb_frame.f_code.co_filename) == self._file:
                line = trace.tb_lineno
            trace = trace.tb_next
        where = f" (line {line})" if line else ""
        kind = "" if isinstance(error, _TooLong) else f"{type(error).__name__}: "
        return f"{kind}{error}"[:300] + where

    def run(
        self, function: Callable[..., Any], words: dict[str, str], seed: int
    ) -> dict[str, Any] | None:
        """The arguments that `words` mean, if the function runs with them and comes to the line."""
        try:
            kwargs = arguments_of(words, seed)
        except Problem:
            return None
        tried = self._try(lambda: function(**arguments_of(words, seed)))
        return kwargs if tried.ended and tried.lines & self._lines else None

    # --- searching ---

    def build(
        self, owner: type, node: ast.FunctionDef | None, known: list[dict[str, str]]
    ) -> Iterator[Any]:
        """Objects of a class: as the file makes them (`known`), then made with small numbers.
        `node`: the constructor.
        """
        for words in known:
            if self._try(lambda words=words: owner(**arguments_of(words, _SEED))).ended:  # type: ignore[misc]
                yield owner(**arguments_of(words, _SEED))
        found = self._climb(owner, node, slots_of_class, lambda tried: tried.ended)
        if found is not None:
            yield owner(**arguments_of(found, _SEED))

    def search(
        self, function: Callable[..., Any], node: ast.FunctionDef | None
    ) -> TriedInputs | None:
        """Words with which `function` runs and comes to the line; `node`: its code. Without lines
        it only has to run.
        """

        def done(tried: _Tried) -> bool:
            return tried.ended and (not self._lines or bool(tried.lines & self._lines))

        found = self._climb(function, node, slots_of_function, done)
        return None if found is None else TriedInputs(found)

    def _climb(
        self,
        function: Callable[..., Any],
        node: ast.FunctionDef | None,
        slots_of: Callable[..., Slots],
        done: Callable[[_Tried], bool],
    ) -> dict[str, str] | None:
        try:
            is_module = isinstance(function, nn.Module)
            described: Any = getattr(function, "forward") if is_module else function  # noqa: B009
            parameters = inspect.signature(described).parameters.values()
        except (TypeError, ValueError) as error:
            self.last_error = f"its arguments cannot be read: {error}"
            return None
        slots = slots_of(
            [e for e in parameters if e.kind not in (e.VAR_POSITIONAL, e.VAR_KEYWORD)],
            {} if node is None else uses_of(node),
        )
        best = _Best()
        seen: set[tuple[Any, ...]] = set()
        for proposed in self._proposals(slots.choices, best):
            words = slots.composed(proposed)
            key = tuple(sorted(words.items()))
            if time.monotonic() > self._deadline or len(seen) >= MOST_TRIALS:
                break
            if key in seen:
                continue
            seen.add(key)
            tried = self._try(lambda words=words: function(**arguments_of(words, _SEED)))  # type: ignore[misc]
            if done(tried):
                return words
            reached = (len(tried.lines) + (1000 if tried.ended else 0), tried.calls)
            if reached > best.reached:
                best.reached, best.words, best.error = reached, proposed, self.last_error
        self.last_error = best.error or self.last_error
        return None

    def _fitted(self, best: _Best) -> Iterator[dict[str, str]]:
        """The best one so far with one size of one tensor, one shape, or one number, as its error
        says, as long as that comes further.
        """
        reached: tuple[int, int] | None = None
        while reached is None or best.reached > reached:
            reached = best.reached
            words = dict(best.words)
            for name, word in words.items():
                for fitted in _fits(word, best.error):
                    yield {**words, name: fitted}

    def _proposals(self, choices: dict[str, list[str]], best: _Best) -> Iterator[dict[str, str]]:
        """First everything of one shape, also with numbers in [0, 1], then of parts of one, then
        the best one so far with one or two changes.
        """
        first = {name: each[0] for name, each in choices.items()}
        for shape in SHAPES:
            yield _filled(first, shape)
        yield from self._fitted(best)
        bounded = {name: each.replace(NORMAL, UNIFORM) for name, each in first.items()}
        for shape in SHAPES:
            yield _filled(bounded, shape)
            for size in _sizes_in(self.last_error):
                for fitted in _with_size(shape, size):
                    yield _filled(first, fitted)
        changeable = [name for name, each in choices.items() if len(each) > 1]
        tensors = [name for name, each in choices.items() if any("{}" in one for one in each)]
        for name in tensors:
            for shape in SHAPES:
                yield _filled({**best.words, name: choices[name][0]}, shape)
        yield from self._fitted(best)
        yield from _of_parts(first)
        yield from self._fitted(best)
        for turn in range(4 * MOST_TRIALS):
            if not changeable:
                return
            words = dict(best.words)
            for name in self._draw.sample(
                changeable, min(len(changeable), self._draw.randint(1, 2))
            ):
                words[name] = self._draw.choice(choices[name])
            shapes = list(SHAPES)
            for size in _sizes_in(self.last_error):
                shapes += _with_size(self._draw.choice(SHAPES), size)
            yield _filled(words, self._draw.choice(shapes))
            if turn % 100 == 99:
                yield from self._fitted(best)


def _of_parts(words: dict[str, str]) -> Iterator[dict[str, str]]:
    """Each tensor has a shape, its first size, all but its last, its last, or none: an index has
    one number a row, a mask one a position, a scale none.
    """
    open_names = [name for name, each in words.items() if "{}" in each]
    for shape in ("8,16", "2,8,16", "16", "8", "2,3,16,16"):
        sizes = shape.split(",")
        parts = dict.fromkeys([shape, sizes[0], ",".join(sizes[:-1]), sizes[-1], ""])
        together = itertools.product(parts, repeat=len(open_names))
        for chosen in itertools.islice(together, MOST_TOGETHER):
            made = dict(words)
            for name, part in zip(open_names, chosen, strict=True):
                made[name] = words[name].replace("{}", part)
            yield _filled(made, shape)


def _fits(word: str, error: str) -> Iterator[str]:
    """`word` with what the error says of sizes."""
    shape = _SHAPE.search(word)
    for size in _sizes_in(error):
        if _LAYER.search(word) is not None:
            yield _LAYER.sub(f"linear({size}, {size})", word)
        elif shape is None:  # a plain number
            yield size
        else:
            for fitted in _with_size(shape[1], size):
                yield word.replace(f"[{shape[1]}]", f"[{fitted}]")
    if shape is not None:
        for whole in re.findall(r"\[([\d, ]+)\]", error)[:4]:
            yield word.replace(f"[{shape[1]}]", f"[{whole.replace(' ', '')}]")


def _sizes_in(error: str) -> list[str]:
    """What an error says of sizes, "mat1 and mat2 shapes cannot be multiplied (8x16 and 32x64)",
    has the right one among its numbers.
    """
    numbers = re.findall(r"\d+", re.sub(r" \(line \d+\)$", "", error))
    return [each for each in dict.fromkeys(numbers) if 0 < int(each) <= 4096][:6]


def _with_size(shape: str, size: str) -> list[str]:
    """`shape` with one of its sizes replaced, the last one first."""
    sizes = shape.split(",") if shape else []
    made = [[*sizes[:at], size, *sizes[at + 1 :]] for at in range(len(sizes) - 1, -1, -1)]
    return [",".join(each) for each in made if math.prod(map(int, each)) <= MOST_ELEMENTS]


def _filled(words: dict[str, str], shape: str) -> dict[str, str]:
    """Words whose shape is open get `shape`; those of nothing are left to their defaults."""
    return {name: each.replace("{}", shape) for name, each in words.items() if each}


def arguments_of(words: dict[str, str], seed: int) -> dict[str, Any]:
    return {
        name: make_inputs([word], seed + at)[0].value
        for at, (name, word) in enumerate(words.items())
    }
