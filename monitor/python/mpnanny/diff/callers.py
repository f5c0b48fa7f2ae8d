"""What the calls in a file tell of a function's or a constructor's arguments: `RowNorm(64)` has a
size, `loss(logits.float(), y)` a dtype.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from typing import Any

# Methods that give a tensor of this dtype.
_CASTS = {"float": "float32", "half": "float16", "bfloat16": "bfloat16", "double": "float64"}
_DTYPES = ("float32", "float16", "bfloat16", "float64")


def numbers_at_calls(
    tree: ast.Module, name: str, function: Callable[..., Any], names: dict[str, Any]
) -> list[dict[str, str]]:
    """Words of the arguments of each call of `name` whose values the text has: numbers, tuples, and
    what they are called at the top level (`names`). Only calls without which nothing is missing.
    """
    found: list[dict[str, str]] = []
    for given in _calls(tree, name, function):
        words = {}
        for parameter, value in given.items():
            word = _word(value, names)
            if word:
                words[parameter] = word
        if words and words not in found and not _missing(function, words):
            found.append(words)
    return found


def dtypes_at_calls(tree: ast.Module, name: str, function: Callable[..., Any]) -> dict[str, str]:
    """The dtype that every call in the file gives an argument, where all give the same."""
    told: dict[str, set[str]] = {}
    for given in _calls(tree, name, function):
        for parameter, value in given.items():
            told.setdefault(parameter, set()).add(_dtype(value, tree))
    return {
        parameter: next(iter(dtypes))
        for parameter, dtypes in told.items()
        if len(dtypes) == 1 and "" not in dtypes
    }


def _calls(
    tree: ast.Module, name: str, function: Callable[..., Any]
) -> Iterator[dict[str, ast.expr]]:
    """The arguments of each call, by parameter."""
    try:
        parameters = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if not (
            (isinstance(called, ast.Name) and called.id == name)
            or (isinstance(called, ast.Attribute) and called.attr == name)
        ):
            continue
        if any(isinstance(each, ast.Starred) for each in node.args):
            continue
        given = dict(zip(parameters, node.args, strict=False))
        given |= {each.arg: each.value for each in node.keywords if each.arg is not None}
        yield given


def _missing(function: Callable[..., Any], words: dict[str, str]) -> bool:
    return any(
        each.default is each.empty and name not in words
        for name, each in inspect.signature(function).parameters.items()
        if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    )


def _word(value: ast.expr, names: dict[str, Any]) -> str:
    """ "" where the text does not have it."""
    if isinstance(value, ast.Name):
        held = names.get(value.id)
    else:
        try:
            held = ast.literal_eval(value)
        except (ValueError, SyntaxError, TypeError):
            return ""
    if isinstance(held, tuple):
        return repr(held) if all(isinstance(each, (int, float)) for each in held) else ""
    return repr(held) if isinstance(held, (int, float)) else ""


def _dtype(value: ast.expr, tree: ast.Module, depth: int = 3) -> str:
    """Of `x.float()`, `x.to(torch.float16)`, or of a name that such was given to before."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr in _CASTS:
            return _CASTS[value.func.attr]
        if value.func.attr in ("to", "type") and value.args:
            last = value.args[-1]
            if isinstance(last, ast.Attribute) and last.attr in _DTYPES:
                return last.attr
        return ""
    if isinstance(value, ast.Name) and depth:
        before = [
            each
            for each in ast.walk(tree)
            if isinstance(each, ast.Assign)
            and each.lineno < value.lineno
            and any(isinstance(one, ast.Name) and one.id == value.id for one in each.targets)
        ]
        if before:
            newest = max(before, key=lambda each: each.lineno)
            return _dtype(newest.value, tree, depth - 1)
    return ""
