"""Files of the user's as modules. Imports happen here and nowhere else.

What trains at the top level of a file is left out: whoever tries a function of a script does not
wait for its training.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import sys
import types
from importlib.machinery import ModuleSpec, SourceFileLoader
from typing import Any

from .problem import Problem

_LEFT_OUT = "__mpnanny_left_out__"  # of a module: line of what was not run, by name that it binds
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def file_root(file: str) -> str:
    """The folder that has to be on sys.path for `file`."""
    return _root_of(file)[0]


def started_as(file: str) -> str:
    """The dotted name by which a part of a package is started (`python -m`); "" of a script."""
    name = _root_of(file)[1]
    return name if "." in name else ""


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
    _find_from(root, folder)
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == os.path.abspath(file):
        return known
    try:
        if "." in name:
            importlib.import_module(name.rpartition(".")[0])
            if name in sys.modules:
                return sys.modules[name]
        elif known is not None:
            name = f"{name}_of_mpnanny"  # another module has its name
        path = os.path.abspath(file)
        spec = importlib.util.spec_from_file_location(name, path, loader=_Loader(name, path))
        assert isinstance(spec, ModuleSpec) and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module
    except (Exception, SystemExit) as error:
        sys.modules.pop(name, None)
        raise import_problem(file, error) from error


def left_out_of(module: Any, name: str) -> int:
    """The line of what trains and would have bound `name`; 0 where there is none."""
    lines: dict[str, int] = getattr(module, _LEFT_OUT, {})
    return lines.get(name, 0)


def _find_from(*folders: str) -> None:
    for each in folders:
        if each and each not in sys.path:
            sys.path.insert(0, each)


class _Loader(SourceFileLoader):
    """Executes a file but for what trains."""

    def exec_module(self, module: types.ModuleType) -> None:
        path = self.get_filename(module.__name__)
        tree = ast.parse(self.get_data(path), path)
        training = _training_of(tree)
        tree.body = [each for each in tree.body if each not in training]
        bound = {name: each.lineno for each in training for name in _bound_by(each)}
        setattr(module, _LEFT_OUT, bound)
        exec(compile(tree, path, "exec", dont_inherit=True), module.__dict__)


def _training_of(tree: ast.Module) -> list[ast.stmt]:
    """The statements of the top level that train: that call backward() or fit(), or a function of
    the file that does.
    """
    plain = (*_FUNCTIONS, ast.ClassDef, ast.Import, ast.ImportFrom)
    defined = [each for each in tree.body if isinstance(each, (*_FUNCTIONS, ast.ClassDef))]
    calls = _Calls(defined)
    return [each for each in tree.body if not isinstance(each, plain) and calls.trains([each])]


def trains_at_top_level(tree: ast.Module) -> bool:
    return bool(_training_of(tree))


class _Calls:
    """Which functions and methods of a file train, as far as their names tell."""

    def __init__(self, defined: list[Any]) -> None:
        self._functions: set[str] = set()
        self._methods = {"fit"}
        while True:
            before = len(self._functions) + len(self._methods)
            for each in defined:
                if not isinstance(each, ast.ClassDef):
                    if self.trains(each.body):
                        self._functions.add(each.name)
                    continue
                methods = [inner for inner in each.body if isinstance(inner, _FUNCTIONS)]
                self._methods |= {inner.name for inner in methods if self.trains(inner.body)}
            if len(self._functions) + len(self._methods) == before:
                return

    def trains(self, body: list[ast.stmt]) -> bool:
        """A function that is only defined there is not called there. What is assigned is wanted for
        its value, as of `StandardScaler().fit(x)`: only backward() tells then.
        """
        open_nodes: list[ast.AST] = list(body)
        wanted = len(body) == 1 and isinstance(body[0], (ast.Assign, ast.AnnAssign))
        while open_nodes:
            node = open_nodes.pop()
            if isinstance(node, (*_FUNCTIONS, ast.ClassDef, ast.Lambda)):
                continue
            if isinstance(node, ast.Call) and self._is_training(node.func, wanted):
                return True
            open_nodes += ast.iter_child_nodes(node)
        return False

    def _is_training(self, called: ast.expr, wanted: bool) -> bool:
        if isinstance(called, ast.Name):
            return called.id in self._functions
        if not isinstance(called, ast.Attribute):
            return False
        if called.attr == "backward":
            return True
        if called.attr == "train":  # of a Trainer; that of a module is a switch
            owner = called.value
            return isinstance(owner, ast.Name) and owner.id.lower().endswith("trainer")
        return not wanted and called.attr in self._methods


def _bound_by(statement: ast.stmt) -> list[str]:
    return [
        each.id
        for each in ast.walk(statement)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    ]


def load_in_pieces(file: str, tree: ast.Module, root: str) -> tuple[Any, dict[str, str]]:
    """A file that cannot be imported, statement by statement: what fails is left out, as is what
    trains. Second: why what is not there is not, by name.
    """
    folder, name = _root_of(file)
    _find_from(root, folder)
    module = types.ModuleType(f"{name}_in_pieces")
    module.__file__ = os.path.abspath(file)
    module.__package__ = name.rpartition(".")[0]
    sys.modules[module.__name__] = module
    failed: dict[str, str] = {}
    training = _training_of(tree)
    for statement in training:
        for bound in _bound_by(statement):
            failed[bound] = f"line {statement.lineno} trains, and was not run"
    for statement in tree.body:
        if statement in training:
            continue
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
