"""What is run: a model, a function, a class, a snippet or a configuration, found by the words of a
request and made anew as often as it is needed.

Runs code of the user's. Imports happen here and nowhere else.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import sys
import tempfile
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

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
    args, kwargs = list(request.get("args") or []), dict(request.get("kwargs") or {})
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
        root or _root_of(file)[0],
    )


def _seeded(make: Callable[[], Any]) -> Callable[[], Callable[..., Any]]:
    def seeded() -> Callable[..., Any]:
        torch.manual_seed(SEED)
        made: Callable[..., Any] = make()
        return made

    return seeded


def _made(found: Any, is_model: bool, args: list[Any], kwargs: dict[str, Any], words: str) -> Any:
    if isinstance(found, nn.Module):
        return found
    if isinstance(found, type) or is_model or args or kwargs:
        try:
            found = found(*args, **kwargs)
        except TypeError as error:
            raise Problem(
                f"{words} cannot be made: {error}",
                "Give its arguments as args (a list) or kwargs (an object).",
            ) from error
    if not callable(found):
        raise Problem(f"{words} is a {type(found).__name__} and cannot be called.")
    return found


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
            known = [each for each in vars(module) if not each.startswith("_")]
            raise Problem(f"{file} has no '{name}'.", "It defines: " + ", ".join(known)[:500] + ".")
        found = getattr(found, part)
    return found


# --- files as modules ---


def _root_of(file: str) -> tuple[str, str]:
    """The folder that has to be on sys.path for `file`, and its dotted name below that: a file in a
    package is imported as a part of the package, so that its relative imports work.
    """
    folder, stem = os.path.split(os.path.abspath(file))
    parts = [os.path.splitext(stem)[0]]
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder, name = os.path.split(folder)
        parts.insert(0, name)
    return folder, ".".join(parts)


def load_file(file: str, root: str = "") -> Any:
    """`file` as a module. Raises Problem where it cannot be imported."""
    if not os.path.isfile(file):
        raise Problem(f"There is no file {file}.", kind="NotFound")
    folder, name = _root_of(file)
    for each in (root, folder):
        if each and each not in sys.path:
            sys.path.insert(0, each)
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == os.path.abspath(file):
        return known
    try:
        if "." in name:
            return importlib.import_module(name)
        if known is not None:
            name = f"{name}_of_mpnanny"  # another module has its name
        spec = importlib.util.spec_from_file_location(name, os.path.abspath(file))
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module
    except (Exception, SystemExit) as error:
        sys.modules.pop(name, None)
        raise import_problem(file, error) from error


def load_in_pieces(file: str, tree: ast.Module, root: str) -> tuple[Any, dict[str, str]]:
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
            if isinstance(error, NameError) and error.name in failed:
                why = failed[error.name]
            for bound in _names_of(statement):
                failed[bound] = why
    return module, failed


def _names_of(statement: ast.stmt) -> list[str]:
    if isinstance(statement, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        return [statement.name]
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return [(each.asname or each.name).split(".")[0] for each in statement.names]
    return [each.id for each in ast.walk(statement) if isinstance(each, ast.Name)]


def import_problem(file: str, error: BaseException) -> Problem:
    """What an import that failed means."""
    if isinstance(error, SyntaxError):
        return Problem(f"{file}:{error.lineno} is no valid Python: {error.msg}.")
    if isinstance(error, ModuleNotFoundError):
        return Problem(
            f"{file} imports '{error.name}', which is not installed in {sys.executable}.",
            "Choose the interpreter of the training with `python`, or install it there.",
            "Unavailable",
        )
    return Problem(
        f"{file} cannot be imported: {type(error).__name__}: {error}",
        "Importing it runs its top level; what needs data or a GPU belongs under "
        "if __name__ == '__main__'.",
    )


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
