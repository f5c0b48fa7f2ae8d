"""Inputs for a function of which nothing is known but its code: they are tried. A trial that comes
further (more of the function's lines run) is a better start for the next one.
"""

from __future__ import annotations

import ast
import inspect
import os
import random
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from .problem import Problem
from .specification import make_inputs
from .uses import Use, uses_of

MOST_SECONDS = 2.0  # of one trial
MOST_TRIALS = 400
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
    "1",
    "",
)
_FLOAT, _IDS, _MASK = "float32[{}]~normal(0,1)", "int64[{}]<8", "bool[{}]~bernoulli(0.7)"
_SHAPE = re.compile(r"\[([\d,]+)\]")
_NUMBERS = ("16", "4", "2", "8", "1", "0.5", "0.1", "0", "3")
_SEED = 11


@dataclass(slots=True)
class Found:
    """Words of a call that runs and comes to the line, by argument."""

    words: dict[str, str]


@dataclass(slots=True)
class _Best:
    """The trial that came furthest."""

    reached: int = -1
    words: dict[str, str] = field(default_factory=dict)
    error: str = ""


class _TooLong(Exception):
    pass


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


class Trials:
    """Of one suspected line. `last_error`: what the newest trial that failed said."""

    def __init__(self, lines: list[int], file: str, budget_seconds: float) -> None:
        self._lines = set(lines)
        self._file = os.path.realpath(file)
        self._deadline = time.monotonic() + budget_seconds
        self._draw = random.Random(_SEED)
        self.last_error = "its arguments are not known"

    # --- one trial ---

    def _try(self, call: Callable[[], Any]) -> tuple[bool, set[int]]:
        """Whether it ended without an error, and which lines of the file ran."""
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
        try:
            with _limit(MOST_SECONDS):
                sys.settrace(trace)
                call()
            return True, ran
        except (Exception, SystemExit) as error:  # a script that asks for arguments ends
            self.last_error = f"{type(error).__name__}: {error}"[:300]
            return False, ran
        finally:
            sys.settrace(before)

    def run(
        self, function: Callable[..., Any], words: dict[str, str], seed: int
    ) -> dict[str, Any] | None:
        """The arguments that `words` mean, if the function runs with them and comes to the line."""
        try:
            kwargs = _arguments(words, seed)
        except Problem:
            return None
        ended, ran = self._try(lambda: function(**_arguments(words, seed)))
        return kwargs if ended and ran & self._lines else None

    # --- searching ---

    def build(self, owner: type) -> Any:
        """An object of a class, made with small numbers; None where that fails."""
        found = self._climb(owner, None, lambda ended, ran: ended)
        return None if found is None else owner(**_arguments(found, _SEED))

    def search(self, function: Callable[..., Any], node: ast.FunctionDef | None) -> Found | None:
        """Words with which `function` runs and comes to the line; `node`: its code."""
        found = self._climb(function, node, lambda ended, ran: ended and bool(ran & self._lines))
        return None if found is None else Found(found)

    def _climb(
        self,
        function: Callable[..., Any],
        node: ast.FunctionDef | None,
        done: Callable[[bool, set[int]], bool],
    ) -> dict[str, str] | None:
        try:
            is_module = isinstance(function, nn.Module)
            described: Any = getattr(function, "forward") if is_module else function  # noqa: B009
            parameters = inspect.signature(described).parameters.values()
        except (TypeError, ValueError) as error:
            self.last_error = f"its arguments cannot be read: {error}"
            return None
        uses = uses_of(node) if node is not None else {}
        choices = {
            each.name: _choices(each, uses.get(each.name, Use()))
            if node is not None
            else _choices_of_a_class(each)
            for each in parameters
            if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        }
        best = _Best()
        seen: set[tuple[Any, ...]] = set()
        for words in self._proposals(choices, best):
            key = tuple(sorted(words.items()))
            if time.monotonic() > self._deadline or len(seen) >= MOST_TRIALS:
                break
            if key in seen:
                continue
            seen.add(key)
            ended, ran = self._try(lambda words=words: function(**_arguments(words, _SEED)))  # type: ignore[misc]
            if done(ended, ran):
                return words
            reached = len(ran) + (1000 if ended else 0)
            if reached > best.reached:
                best.reached, best.words, best.error = reached, words, self.last_error
        self.last_error = best.error or self.last_error
        return None

    def _fitted(self, best: _Best) -> Iterator[dict[str, str]]:
        """The best one so far with one size of one tensor, or one number, as its error says, as
        long as that comes further.
        """
        reached = -2
        while best.reached > reached:
            reached = best.reached
            words = dict(best.words)
            for name, word in words.items():
                shape = _SHAPE.search(word)
                for size in _sizes_in(best.error):
                    if shape is None:  # a plain number
                        yield {**words, name: size}
                        continue
                    for fitted in _with_size(shape[1], size):
                        yield {**words, name: word.replace(f"[{shape[1]}]", f"[{fitted}]")}

    def _proposals(self, choices: dict[str, list[str]], best: _Best) -> Iterator[dict[str, str]]:
        """First everything of one shape, then the best one so far with one or two changes."""
        for shape in SHAPES:
            yield _filled({name: each[0] for name, each in choices.items()}, shape)
            for size in _sizes_in(self.last_error):
                for fitted in _with_size(shape, size):
                    yield _filled({name: each[0] for name, each in choices.items()}, fitted)
        changeable = [name for name, each in choices.items() if len(each) > 1]
        tensors = [name for name, each in choices.items() if any("{}" in one for one in each)]
        for name in tensors:
            for shape in SHAPES:
                yield _filled({**best.words, name: choices[name][0]}, shape)
        yield from self._fitted(best)
        for _ in range(4 * MOST_TRIALS):
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


def _choices_of_a_class(parameter: inspect.Parameter) -> list[str]:
    """What objects are made with is mostly numbers."""
    found = _choices(parameter, Use())
    return sorted(found, key=lambda each: "{}" in each)


def _sizes_in(error: str) -> list[str]:
    """What an error says of sizes, "mat1 and mat2 shapes cannot be multiplied (8x16 and 32x64)",
    has the right one among its numbers.
    """
    numbers = re.findall(r"\d+", error)
    return [each for each in dict.fromkeys(numbers) if 0 < int(each) <= 4096][:6]


def _with_size(shape: str, size: str) -> list[str]:
    """`shape` with one of its sizes replaced, the last one first."""
    sizes = shape.split(",") if shape else []
    return [",".join([*sizes[:at], size, *sizes[at + 1 :]]) for at in range(len(sizes) - 1, -1, -1)]


def _filled(words: dict[str, str], shape: str) -> dict[str, str]:
    """Words whose shape is open get `shape`; those of nothing are left to their defaults."""
    return {name: each.replace("{}", shape) for name, each in words.items() if each}


def _arguments(words: dict[str, str], seed: int) -> dict[str, Any]:
    return {
        name: make_inputs([word], seed + at)[0].value
        for at, (name, word) in enumerate(words.items())
    }


def _choices(parameter: inspect.Parameter, use: Use) -> list[str]:
    """Words that an argument may be, the likeliest first; "" leaves it to its default."""
    annotation = parameter.annotation
    words = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    tensors = [_FLOAT, _IDS, _MASK]
    if use.is_index:
        tensors = [_IDS, _MASK, _FLOAT]
    elif use.is_condition:
        tensors = [_MASK, _FLOAT, _IDS]
    if words in ("int",) or use.is_size:
        found = list(_NUMBERS)
    elif words in ("float",):
        found = ["0.5", "0.1", "2.0", "1.0", "16.0"]
    elif words == "bool":
        found = ["True", "False"]
    elif use.is_number:
        found = [*_NUMBERS[:6], *tensors]
    else:
        found = [*tensors, "16", "0.5"]
    if parameter.default is not inspect.Parameter.empty:
        return ["", *found] if parameter.default is None else [""]
    return found
