"""The function around a suspected line: where it is, how it is made callable, and with which inputs
it runs. Which inputs those are is found by trying (trial.py), not by names.
"""

from __future__ import annotations

import ast
import os
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from .inputs_by_trial import Found, Trials
from .problem import Problem
from .ranges import LENGTHENED, LONG, RANGES, in_range
from .target import _root_of, load_file


@dataclass(slots=True)
class Located:
    """`lines`: of the statement at the line. `missing`: why the function cannot be run alone."""

    file: str
    qualname: str
    lines: list[int]
    kind: str  # function | method | module level
    missing: list[str] = field(default_factory=list)
    callable: Callable[..., Any] | None = None  # of a method: of the class, without self
    owner: type | None = None  # the class of a method
    node: ast.FunctionDef | None = None


@dataclass(slots=True)
class Call:
    """One way to call it. `words`: of each argument, for a person to repeat it."""

    function: Callable[..., Any]
    args: list[Any]
    kwargs: dict[str, Any]
    words: list[str]
    range: str  # how the floating-point numbers were drawn


def locate(file: str, line: int, root: str) -> Located:
    """Raises Problem where there is no such line, or the file is no Python."""
    try:
        with open(file, encoding="utf-8") as source:
            text = source.read()
        tree = ast.parse(text)
    except (OSError, UnicodeDecodeError) as error:
        raise Problem(f"{file} cannot be read: {error}.") from error
    except (SyntaxError, ValueError) as error:
        raise Problem(f"{file} is no valid Python: {error}.") from error
    count = text.count("\n") + 1
    if not 1 <= line <= count:
        raise Problem(f"{file} has {count} lines, not {line}.")
    path = _path_to(tree, line)
    functions = [at for at, each in enumerate(path) if isinstance(each, _FUNCTIONS)]
    lines = _lines_of(path, line)
    if not functions:
        why = ["the line is not in a function"]
        return Located(file, "", lines, "module level", why)
    path = path[: functions[0] + 1]  # the outermost one: what is inside runs when it runs
    node = path[-1]
    names = [each.name for each in path if isinstance(each, (ast.ClassDef, *_FUNCTIONS))]
    kind = "method" if len(names) > 1 else "function"
    located = Located(file, ".".join(names), lines, kind, node=node)  # type: ignore[arg-type]
    if isinstance(node, ast.AsyncFunctionDef) or any(
        isinstance(each, (ast.Yield, ast.YieldFrom)) for each in ast.walk(node)
    ):
        located.missing.append("it is a generator or a coroutine, not a plain function")
        return located
    _load(located, tree, names, root)
    return located


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _path_to(tree: ast.Module, line: int) -> list[ast.stmt]:
    """The statements that hold `line`, the outermost first."""
    path: list[ast.stmt] = []
    body: list[ast.stmt] = tree.body
    while True:
        inner = next((e for e in body if e.lineno <= line <= (e.end_lineno or e.lineno)), None)
        if inner is None:
            return path
        path.append(inner)
        body = [
            each
            for name in ("body", "orelse", "finalbody", "handlers")
            for each in getattr(inner, name, [])
        ]
        for handler in getattr(inner, "handlers", []):
            body += handler.body


def _lines_of(path: list[ast.stmt], line: int) -> list[int]:
    if not path or hasattr(path[-1], "body"):
        return [line]
    return list(range(path[-1].lineno, (path[-1].end_lineno or line) + 1))


# --- making it callable ---


def _load(located: Located, tree: ast.Module, names: list[str], root: str) -> None:
    try:
        module = load_file(located.file, root)
        failed: dict[str, str] = {}
    except Problem:
        module, failed = _load_in_pieces(located.file, tree, root)
    found: Any = module
    for name in names:
        owner, found = found, getattr(found, name, None)
        if found is None:
            located.missing.append(failed.get(name, f"{name} is not there once the file runs"))
            return
    if located.kind == "method":
        located.owner = owner
        is_plain = isinstance(vars(owner).get(names[-1]), (staticmethod, classmethod))
        if is_plain:
            located.owner = None
    located.callable = found


def _load_in_pieces(file: str, tree: ast.Module, root: str) -> tuple[Any, dict[str, str]]:
    """A file that cannot be imported, statement by statement: what fails is left out. Second: why
    what is not there is not, by name.
    """
    folder, name = _root_of(file)
    for each in (root, folder):
        if each and each not in sys.path:
            sys.path.insert(0, each)
    module = types.ModuleType(f"{name}_in_pieces")
    module.__file__ = os.path.abspath(file)
    module.__package__ = name.rpartition(".")[0]
    sys.modules[module.__name__] = module
    failed: dict[str, str] = {}
    for statement in tree.body:
        try:
            exec(compile(ast.Module([statement], []), file, "exec"), module.__dict__)
        except BaseException as error:
            why = f"line {statement.lineno} fails: {type(error).__name__}: {error}"[:200]
            for bound in _names_of(statement):
                failed[bound] = why
    return module, failed


def _names_of(statement: ast.stmt) -> list[str]:
    if isinstance(statement, (ast.ClassDef, *_FUNCTIONS)):
        return [statement.name]
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return [(each.asname or each.name).split(".")[0] for each in statement.names]
    return [each.id for each in ast.walk(statement) if isinstance(each, ast.Name)]


# --- calls ---


def calls(located: Located, seed: int, budget_seconds: float) -> Iterator[Call]:
    """Calls that run and come to the line, the plainest numbers first. Where there is none,
    `located.missing` says what was wrong at last.
    """
    assert located.callable is not None
    trials = Trials(located.lines, located.file, budget_seconds)
    function: Callable[..., Any] = located.callable
    if located.owner is not None:
        made = trials.build(located.owner)
        if made is None:
            located.missing.append(f"{located.owner.__name__} cannot be made: {trials.last_error}")
            return
        name = located.qualname.rpartition(".")[2]
        function = (
            made if name == "forward" and isinstance(made, nn.Module) else getattr(made, name)
        )
    found = trials.search(function, located.node)
    if found is None:
        located.missing.append(f"no inputs were found with which it runs: {trials.last_error}")
        return
    yield from _in_ranges(trials, function, found, seed)


def _in_ranges(
    trials: Trials, function: Callable[..., Any], found: Found, seed: int
) -> Iterator[Call]:
    plain = in_range(found.words, "normal(0,1)", "")
    for long in ("", *LENGTHENED):
        if long and in_range(found.words, "normal(0,1)", long) == plain:
            continue
        for name in RANGES:
            words = in_range(found.words, name, long)
            kwargs = trials.run(function, words, seed)
            if kwargs is None:
                continue
            shown = name + (f", {LONG} instead of {long}" if long else "")
            yield Call(function, [], kwargs, [*words.values()], shown)
