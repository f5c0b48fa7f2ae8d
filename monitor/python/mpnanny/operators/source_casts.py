"""Casts to a 16-bit format as the program's text shows them: for values that were seen to have been
in that format while nobody watched the operators.

Read, not measured: only where the functions that a line can reach hold a single such cast, so that
nothing else can have made them.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import linecache
from collections.abc import Iterator
from dataclasses import dataclass, field

MOST_BYTES = 400_000
_METHODS = {"half": "float16", "bfloat16": "bfloat16"}
_NAMES = {"float16": "float16", "half": "float16", "bfloat16": "bfloat16"}
_CONVERTING = {"to", "type", "astype", "copy_", "new_tensor"}


@dataclass(slots=True)
class _Scope:
    """A function, or a file outside of its functions."""

    first: int
    last: int
    casts: dict[str, set[int]] = field(default_factory=dict)  # lines by format
    calls: set[str] = field(default_factory=set)  # names of what is called


def cast_near(place: str, dtype: str) -> str:
    """file:line of the only cast to `dtype` ("float16") that what surrounds `place` (file:line)
    can reach in its file; "" where there is none, or more than one.
    """
    file, _, line = place.rpartition(":")
    if not file or not line.isdigit():
        return ""
    with contextlib.suppress(Exception):
        scopes = _scopes(file)
        around = [each for each in scopes.values() if each.first <= int(line) <= each.last]
        if not around:
            return ""
        inner = min(around, key=lambda each: each.last - each.first)
        lines: set[int] = set()
        for scope in _reached(inner, scopes):
            lines |= scope.casts.get(dtype, set())
        if len(lines) == 1:
            return f"{file}:{lines.pop()}"
    return ""


def _reached(start: _Scope, scopes: dict[str, _Scope]) -> list[_Scope]:
    found, waiting = [start], [start]
    while waiting:
        for name in waiting.pop().calls:
            scope = scopes.get(name)
            if scope is not None and scope not in found:
                found.append(scope)
                waiting.append(scope)
    return found


@functools.lru_cache(maxsize=16)
def _scopes(file: str) -> dict[str, _Scope]:
    """By name; "" is the file. Of functions of one name the last one counts."""
    lines = linecache.getlines(file)
    text = "".join(lines)
    if not text or len(text) > MOST_BYTES:
        return {}
    whole = _Scope(1, len(lines))
    scopes = {"": whole}
    _read(ast.parse(text), whole, scopes)
    return scopes


def _read(node: ast.AST, scope: _Scope, scopes: dict[str, _Scope]) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inner = scopes[child.name] = _Scope(child.lineno, child.end_lineno or child.lineno)
            _read(child, inner, scopes)
            continue
        if isinstance(child, ast.Call):
            _call(child, scope)
        _read(child, scope, scopes)


def _call(call: ast.Call, scope: _Scope) -> None:
    function = call.func
    if isinstance(function, ast.Name):
        scope.calls.add(function.id)
        return
    if not isinstance(function, ast.Attribute):
        return
    scope.calls.add(function.attr)
    if function.attr in _METHODS and not call.args:
        scope.casts.setdefault(_METHODS[function.attr], set()).add(call.lineno)
    elif function.attr in _CONVERTING:
        for dtype in _formats(call):
            scope.casts.setdefault(dtype, set()).add(call.lineno)


def _formats(call: ast.Call) -> Iterator[str]:
    for each in (*call.args, *(word.value for word in call.keywords)):
        if isinstance(each, ast.Attribute) and each.attr in _NAMES:
            yield _NAMES[each.attr]
