"""Which programs of a project come to a file: those that are started (`if __name__ == "__main__"`,
or training at the top level) and import it, directly or by way of others.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Sequence

from ..programs.loading import trains_at_top_level


class Project:
    """The files of a project, as the static check has found them. `training`: those in which
    gradients are computed.
    """

    def __init__(self, files: Sequence[str], training: Sequence[str]) -> None:
        self._files = [os.path.realpath(each) for each in files]
        self._training = {os.path.realpath(each) for each in training}
        self._trees: dict[str, ast.Module | None] = {}
        self._imports: dict[str, set[str]] = {}
        self._by_stem: dict[str, list[str]] = {}
        for each in self._files:
            self._by_stem.setdefault(_module_name(each), []).append(each)

    def entry_points(self, file: str) -> list[str]:
        """Programs that reach `file`, itself first if it is one, then those that train."""
        file = os.path.realpath(file)
        found = [
            each for each in self._files if self.is_started(each) and file in self.reached(each)
        ]

        def rank(entry: str) -> tuple[bool, bool]:
            return entry != file, not (self.reached(entry) & self._training)

        return sorted(found, key=rank)

    def is_started(self, file: str) -> bool:
        tree = self._tree(file)
        return tree is not None and (
            any(map(_is_guard, tree.body)) or (file in self._training and trains_at_top_level(tree))
        )

    def reached(self, file: str) -> set[str]:
        """`file` and those of the project that it imports, and they."""
        seen = {file}
        open_files = [file]
        while open_files:
            for each in self._imported(open_files.pop()) - seen:
                seen.add(each)
                open_files.append(each)
        return seen

    def _imported(self, file: str) -> set[str]:
        known = self._imports.get(file)
        if known is None:
            tree = self._tree(file)
            known = self._imports[file] = set()
            for name in _imported_names(tree) if tree is not None else ():
                known.update(self._files_of(name, file))
        return known

    def _files_of(self, name: str, importer: str) -> Iterator[str]:
        """The files that `name`, a dotted name as an import has it, may mean."""
        level = len(name) - len(name.lstrip("."))
        parts = [each for each in name.split(".") if each]
        if not parts:
            return
        for file in self._by_stem.get(parts[-1], []):
            folder = os.path.dirname(file)
            if os.path.basename(file) == "__init__.py":
                folder = os.path.dirname(folder)
            if level:
                base = importer
                for _ in range(level):
                    base = os.path.dirname(base)
                if os.path.join(base, *parts[:-1]) == folder:
                    yield file
            elif len(parts) == 1 or folder.split(os.sep)[-(len(parts) - 1) :] == parts[:-1]:
                yield file

    def _tree(self, file: str) -> ast.Module | None:
        if file not in self._trees:
            try:
                with open(file, "rb") as source:
                    self._trees[file] = ast.parse(source.read())
            except (OSError, SyntaxError, ValueError, RecursionError):
                self._trees[file] = None
        return self._trees[file]


def _module_name(file: str) -> str:
    folder, name = os.path.split(file)
    stem = os.path.splitext(name)[0]
    return os.path.basename(folder) if stem == "__init__" else stem


def _is_guard(statement: ast.stmt) -> bool:
    """`if __name__ == "__main__":`"""
    if not isinstance(statement, ast.If) or not isinstance(statement.test, ast.Compare):
        return False
    sides = [statement.test.left, *statement.test.comparators]
    is_name = any(isinstance(each, ast.Name) and each.id == "__name__" for each in sides)
    return is_name and any(isinstance(e, ast.Constant) and e.value == "__main__" for e in sides)


def _imported_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                yield each.name
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            if node.module:
                yield base
            for each in node.names:
                yield base + ("." if node.module else "") + each.name
