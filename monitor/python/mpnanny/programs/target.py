"""What is run: a model, a function, a class, a snippet or a configuration, found by the words of a
request and made anew as often as it is needed.

Runs code of the user's.
"""

from __future__ import annotations

import ast
import importlib
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from .arguments import called_with
from .compiled import uncompiled
from .loading import file_root, left_out_of, load_file, load_in_pieces
from .optimizers import is_optimizer, stepped
from .problem import Problem

SEED = 20_260_101


@dataclass(slots=True)
class Target:
    """`make()` gives what is called with the inputs: an nn.Module or a function. The same each
    time: generators are seeded before.
    """

    name: str
    make: Callable[[], Callable[..., Any]]
    root: str  # lines of files below it are shown relative to it


def find_target(request: dict[str, Any]) -> Target:
    """Raises Problem where the request names nothing that can be run."""
    args, kwargs = called_with(list(request.get("args") or []), dict(request.get("kwargs") or {}))
    root = request.get("root") or ""
    if request.get("code") is not None:
        return _snippet(str(request["code"]), args, kwargs, request)
    if request.get("config"):
        words = str(request["config"])
        return Target(words, _seeded(lambda: _from_configuration(words, args, kwargs)), root)
    words = str(request.get("model") or request.get("function") or "")
    file, _, name = words.rpartition(":")
    if not file or not name:
        raise Problem(
            f"'{words}' names nothing that can be run.", "Write file.py:name, e.g. model.py:build."
        )
    found = _find(file, name, root)
    is_model = bool(request.get("model"))
    return Target(
        f"{os.path.basename(file)}:{name}",
        _seeded(lambda: _made(found, is_model, args, kwargs, words)),
        root or file_root(file),
    )


def _seeded(make: Callable[[], Any]) -> Callable[[], Callable[..., Any]]:
    def seeded() -> Callable[..., Any]:
        torch.manual_seed(SEED)
        made: Callable[..., Any] = make()
        return made

    return seeded


def _made(found: Any, is_model: bool, args: list[Any], kwargs: dict[str, Any], words: str) -> Any:
    found = uncompiled(found)
    if isinstance(found, nn.Module):
        return found
    if isinstance(found, type) and is_optimizer(found):
        return stepped(found, args, kwargs)
    if isinstance(found, type) or is_model or args or kwargs:
        if not callable(found):
            raise not_callable(words, found)
        try:
            found = found(*args, **kwargs)
        except TypeError as error:
            raise Problem(
                f"{words} cannot be made: {error}",
                "Give its arguments as `args`: 64, (3,4), None, or n=64 for one by name.",
            ) from error
    if not callable(found):
        raise not_callable(words, found)
    return found


def not_callable(words: str, found: Any) -> Problem:
    file = words.rpartition(":")[0]
    return Problem(
        f"{words} is a {type(found).__name__}: it makes no model and computes nothing.",
        "Name a function or a class." + (" " + recording(file) if file else ""),
    )


def recording(file: str) -> str:
    """How a training without a function to name is looked at: as it runs."""
    return (
        f"A training that is a loop: `mpnanny run -- python {file}` records it with shadow steps, "
        "and then choose_precision with run nanny_logs/metrics.db says which precision it bears. "
        f"To try a part of it, make that a function: {os.path.basename(file)}:step."
    )


def _find(file: str, name: str, root: str) -> Any:
    """`name` of a file; of one that cannot be imported, without what fails."""
    try:
        return _attribute(load_file(file, root), name, file)
    except Problem as problem:
        if problem.kind == "NotFound" or not os.path.isfile(file):
            raise
        try:
            with open(file, encoding="utf-8") as source:
                module, _ = load_in_pieces(file, ast.parse(source.read()), root)
            return _attribute(module, name, file)
        except (Problem, SyntaxError, ValueError):
            raise problem from None


def _attribute(module: Any, name: str, file: str) -> Any:
    found = module
    for part in name.split("."):
        if not hasattr(found, part):
            known = [key for key, each in vars(module).items() if callable(each) and key[:1] != "_"]
            line = left_out_of(module, part)
            if line:
                raise Problem(
                    f"{file}:{line} makes '{part}', and trains: it was not run.",
                    "Make it in a function, such as build(), which trains nothing. "
                    + recording(file),
                )
            if not known:
                raise Problem(
                    f"{file} defines no function and no class: what it trains has no name.",
                    recording(file),
                )
            raise Problem(f"{file} has no '{name}'.", "It defines: " + ", ".join(known)[:500] + ".")
        found = getattr(found, part)
    return found


def load_callable(words: str, root: str) -> Callable[..., Any]:
    """`file.py:name` as it is."""
    file, _, name = words.rpartition(":")
    found: Callable[..., Any] = _attribute(load_file(file, root), name, file)
    return found


# --- snippets and configurations ---


def _snippet(code: str, args: list[Any], kwargs: dict[str, Any], request: dict[str, Any]) -> Target:
    """A snippet that defines one function, class or `build` is that; any other runs from its top to
    its end at each call, with the inputs as variables, and gives what its last expression gives, or
    the tensors that it has assigned.
    """
    try:
        tree = ast.parse(code)
    except SyntaxError as error:
        raise Problem(
            f"Line {error.lineno} of the code is no valid Python: {error.msg}."
        ) from error
    folder = tempfile.mkdtemp(prefix="mpnanny-")
    file = os.path.join(folder, "snippet.py")
    with open(file, "w", encoding="utf-8") as out:
        out.write(code)
    plain = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)
    defined = [each for each in tree.body if isinstance(each, (ast.FunctionDef, ast.ClassDef))]
    documented = [each for each in tree.body if not _is_text(each)]
    if defined and all(isinstance(each, plain) for each in documented):
        names = [each.name for each in defined]
        name = "build" if "build" in names else names[-1]
        found = _attribute(load_file(file), name, "the code")
        return Target(
            f"snippet.py:{name}",
            _seeded(lambda: _made(found, name == "build", args, kwargs, name)),
            folder,
        )
    return Target("snippet.py", _seeded(lambda: _script(tree, file)), folder)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _script(tree: ast.Module, file: str) -> Callable[..., Any]:
    last = tree.body[-1] if tree.body else None
    body, rest = tree.body, None
    if isinstance(last, ast.Expr):
        body, rest = body[:-1], compile(ast.Expression(last.value), file, "eval")
    first = compile(ast.Module(body, []), file, "exec")

    def run(*args: Any, **kwargs: Any) -> Any:
        if args:
            raise Problem(
                "Inputs of a snippet are variables.", "Name them: 'x=float32[8]~normal(0,1)'."
            )
        names: dict[str, Any] = {"torch": torch, "nn": nn, "F": nn.functional, **kwargs}
        exec(first, names)
        if rest is not None:
            return eval(rest, names)
        before = {"torch", "nn", "F", *kwargs}
        return {
            name: each
            for name, each in names.items()
            if name not in before and isinstance(each, torch.Tensor)
        }

    return run


def _from_configuration(words: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`package:name` made at random: a class that has a configuration class is made of one
    (transformers), a name that the package does not have is one of its registered models (timm).
    """
    package, _, name = words.partition(":")
    try:
        module = importlib.import_module(package)
    except ImportError as error:
        raise Problem(
            f"{package} is not installed in {sys.executable}.",
            f"pip install {package}",
            "Unavailable",
        ) from error
    found = getattr(module, name, None)
    try:
        if found is None and hasattr(module, "create_model"):
            return module.create_model(name, *args, **kwargs)
        if found is None:
            raise Problem(f"{package} has no '{name}'.", "Write package:Class or package:function.")
        configuration = getattr(found, "config_class", None)
        if configuration is not None:
            return found(configuration(*args, **kwargs))
        return found(*args, **kwargs)
    except Problem:
        raise
    except Exception as error:
        raise Problem(f"{words} cannot be made: {type(error).__name__}: {error}") from error
