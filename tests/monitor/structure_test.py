"""How the Python front is built: no import circles, no reaching into another's attributes."""

from __future__ import annotations

import ast
import pathlib

import mpnanny
import pytest

PACKAGE = pathlib.Path(mpnanny.__file__).parent
FILES = sorted(
    file for file in PACKAGE.rglob("*.py") if not {"_launch", "__pycache__"} & set(file.parts)
)
# Attributes of torch's own objects that have the name of one of ours.
TORCHS = {"_base", "_buffers", "_modules", "_parameters", "_scale", "_step", "_version"}


def name_of(file: pathlib.Path) -> str:
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


TREES = {name_of(file): ast.parse(file.read_text()) for file in FILES}


def imported(name: str) -> set[str]:
    """The modules of ours that `name` imports, anywhere in it, for types alone or not."""
    folder = (PACKAGE.parent / name.replace(".", "/")).is_dir()
    package = name if folder else name.rpartition(".")[0]
    found = set()
    for node in ast.walk(TREES[name]):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        base = package.split(".")[: len(package.split(".")) - node.level + 1]
        module = ".".join([*base, *([node.module] if node.module else [])])
        names = {f"{module}.{each.name}" for each in node.names}
        found |= names
        if names - set(TREES) - {"mpnanny._core"}:
            found.add(module)
    return found & set(TREES) - {name}


def test_no_module_imports_itself_by_way_of_others():
    done: set[str] = set()

    def follow(name: str, way: list[str]) -> None:
        assert name not in way, " -> ".join([*way, name])
        if name not in done:
            for each in sorted(imported(name)):
                follow(each, [*way, name])
            done.add(name)

    for name in TREES:
        follow(name, [])
    assert len(done) > 40


def private_names(tree: ast.AST) -> set[str]:
    """Of attributes and methods that a file makes."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
        elif isinstance(node, ast.ClassDef):
            names |= {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
    return {name for name in names if name.startswith("_")}


PRIVATE = {name: private_names(tree) for name, tree in TREES.items()}
ALL_PRIVATE = set().union(*PRIVATE.values()) - TORCHS


@pytest.mark.parametrize("name", TREES)
def test_underscore_attributes_are_read_in_their_own_file_only(name):
    for node in ast.walk(TREES[name]):
        if not isinstance(node, ast.Attribute) or node.attr not in ALL_PRIVATE:
            continue
        own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
        assert own or node.attr in PRIVATE[name] or node.attr.startswith("__"), (
            f"{name}:{node.lineno} reads {ast.unparse(node)}"
        )
