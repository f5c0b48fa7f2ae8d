"""The function around a suspected line: where it is, how it is made callable, and with which inputs
it runs. Which inputs those are is found by trying (trial.py), not by names.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from ..programs.compiled import uncompiled
from ..programs.loading import left_out_of, load_file, load_in_pieces
from ..programs.optimizers import is_optimizer, stepped
from ..programs.problem import Problem
from .callers import dtypes_at_calls, numbers_at_calls
from .inputs_by_trial import Trials, TriedInputs
from .ranges import LENGTHENED, LONG, RANGES, in_range


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
    tree: ast.Module | None = None  # of the file
    names: dict[str, Any] = field(default_factory=dict)  # of its top level
    failed: dict[str, str] = field(default_factory=dict)  # why names of the file are not there

    def explained(self, error: str) -> str:
        """An error about a name that is not there, by what kept it from being there."""
        named = re.match(r"NameError: name '(\w+)'", error)
        return self.failed.get(named[1], error) if named else error


@dataclass(slots=True)
class Call:
    """One way to call it. `words`: of each argument, for a person to repeat it."""

    function: Callable[..., Any]
    kwargs: dict[str, Any]
    words: list[str]
    range: str  # how the floating-point numbers were drawn
    dtypes: dict[str, str] = field(default_factory=dict)  # that all callers in the file give


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
    path = chain_to(tree, line)
    functions = [at for at, each in enumerate(path) if isinstance(each, _FUNCTIONS)]
    lines = lines_of(path, line)
    if not functions:
        why = ["the line is not in a function: it runs with the whole file, and not by itself"]
        return Located(file, "", lines, "module level", why)
    path = path[: functions[0] + 1]  # the outermost one: what is inside runs when it runs
    node = path[-1]
    names = [each.name for each in path if isinstance(each, (ast.ClassDef, *_FUNCTIONS))]
    kind = "method" if len(names) > 1 else "function"
    located = Located(file, ".".join(names), lines, kind, node=node, tree=tree)  # type: ignore[arg-type]
    if isinstance(node, ast.AsyncFunctionDef) or any(
        isinstance(each, (ast.Yield, ast.YieldFrom)) for each in ast.walk(node)
    ):
        located.missing.append("it is a generator or a coroutine, not a plain function")
        return located
    _load(located, tree, names, root)
    return located


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def chain_to(tree: ast.Module, line: int) -> list[ast.stmt]:
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


def lines_of(path: list[ast.stmt], line: int) -> list[int]:
    if not path or hasattr(path[-1], "body"):
        return [line]
    return list(range(path[-1].lineno, (path[-1].end_lineno or line) + 1))


# --- making it callable ---


def _load(located: Located, tree: ast.Module, names: list[str], root: str) -> None:
    try:
        module = load_file(located.file, root)
    except Problem:
        module, located.failed = load_in_pieces(located.file, tree, root)
    located.names = vars(module)
    found: Any = module
    for name in names:
        owner, found = found, uncompiled(getattr(found, name, None))
        if found is None:
            line = left_out_of(module, name)
            why = f"line {line} trains, and was not run" if line else ""
            why = why or located.failed.get(name, f"{name} is not there once the file runs")
            located.missing.append(why)
            return
    if located.kind == "method":
        located.owner = owner
        is_plain = isinstance(vars(owner).get(names[-1]), (staticmethod, classmethod))
        if is_plain:
            located.owner = None
    located.callable = found


# --- calls ---


def calls(located: Located, seed: int, budget_seconds: float) -> Iterator[Call]:
    """Calls that run and come to the line, the plainest numbers first. Where there is none,
    `located.missing` says what was wrong at last.
    """
    assert located.callable is not None
    trials = Trials(located.lines, located.file, budget_seconds)
    for function in _callables(located, trials):
        node = located.node if located.owner is None or not _is_stepped(located) else None
        found = trials.search(function, node)
        if found is not None:
            yield from _in_ranges(trials, located, function, found, seed)
            return
        why = located.explained(trials.last_error)
        located.missing[:] = [f"no inputs were found with which it runs: {why}"]


def _is_stepped(located: Located) -> bool:
    return located.owner is not None and is_optimizer(located.owner)


def _callables(located: Located, trials: Trials) -> Iterator[Callable[..., Any]]:
    """What is called: the function, a method of an object that could be made, an optimizer's steps.
    Where there is none, `located.missing` says why.
    """
    owner = located.owner
    if owner is None or located.tree is None:
        assert located.callable is not None
        yield located.callable
        return
    known = numbers_at_calls(located.tree, owner.__name__, owner, located.names)
    if is_optimizer(owner):
        yield _steps_of(owner)
        return
    name = located.qualname.rpartition(".")[2]
    any_made = False
    for made in trials.build(owner, _constructor(located), known):
        any_made = True
        is_forward = name == "forward" and isinstance(made, nn.Module)
        yield made if is_forward else getattr(made, name)
    if not any_made:
        why = located.explained(trials.last_error)
        located.missing.append(f"{owner.__name__} cannot be made: {why}")


def _steps_of(owner: type) -> Callable[..., Any]:
    """With a small number for each argument that has no default, such as a learning rate."""
    parameters = list(inspect.signature(owner).parameters.values())[1:]
    plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    needed = [each.name for each in parameters if each.default is each.empty and each.kind in plain]
    return stepped(owner, [], dict.fromkeys(needed, 1e-3))


def _constructor(located: Located) -> ast.FunctionDef | None:
    assert located.owner is not None and located.tree is not None
    for node in ast.walk(located.tree):
        if isinstance(node, ast.ClassDef) and node.name == located.owner.__name__:
            for each in node.body:
                if isinstance(each, ast.FunctionDef) and each.name == "__init__":
                    return each
    return None


def _in_ranges(
    trials: Trials, located: Located, function: Callable[..., Any], found: TriedInputs, seed: int
) -> Iterator[Call]:
    plain = in_range(found.words, "normal(0,1)", "")
    name_called = located.qualname.rpartition(".")[2]
    described = function.forward if isinstance(function, nn.Module) else function
    dtypes = (
        {}
        if located.tree is None or name_called == "forward"
        else dtypes_at_calls(located.tree, name_called, described)
    )
    for long in ("", *LENGTHENED):
        if long and in_range(found.words, "normal(0,1)", long) == plain:
            continue
        for name in RANGES:
            words = in_range(found.words, name, long)
            kwargs = trials.run(function, words, seed)
            if kwargs is None:
                continue
            shown = name + (f", {LONG} instead of {long}" if long else "")
            yield Call(function, kwargs, [*words.values()], shown, dtypes)
