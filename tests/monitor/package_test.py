"""The package as people and type checkers see it."""

from __future__ import annotations

import ast
import inspect
import pathlib

import mpnanny
import pytest
from mpnanny import MixedPrecisionNanny, _core

ROOT = pathlib.Path(__file__).parents[2]
SOURCE = ROOT / "monitor" / "python" / "mpnanny"


def test_the_stub_names_what_the_extension_has():
    stub = ast.parse((SOURCE / "_core.pyi").read_text())
    functions = {node.name for node in stub.body if isinstance(node, ast.FunctionDef)}
    classes = {node.name: node for node in stub.body if isinstance(node, ast.ClassDef)}
    recorder = classes["Recorder"]
    methods = {node.name for node in recorder.body if isinstance(node, ast.FunctionDef)}

    def public(of: object) -> set[str]:
        return {name for name in vars(of) if not name.startswith("_")}

    assert functions == public(_core) - set(classes)
    assert methods - {"__init__"} == public(_core.Recorder)


def test_the_package_is_typed_and_whole():
    assert (SOURCE / "py.typed").exists()
    package = pathlib.Path(mpnanny.__file__).parent
    for file in SOURCE.rglob("*"):
        if file.is_file() and "__pycache__" not in file.parts:
            assert (package / file.relative_to(SOURCE)).exists(), file
    for name in mpnanny.__all__:
        assert inspect.getdoc(getattr(mpnanny, name)), name


def test_what_pip_builds_needs_nothing_but_a_compiler():
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has no tomllib")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"].get("dependencies", []) == []  # torch is the user's
    assert project["tool"]["scikit-build"]["wheel"]["py-api"] == "cp310"


def test_every_option_is_on_the_page():
    page = (ROOT / "docs" / "monitor.md").read_text()
    for name in inspect.signature(MixedPrecisionNanny).parameters:
        assert f"`{name}`" in page or name == "model", name
