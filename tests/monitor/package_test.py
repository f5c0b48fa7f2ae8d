"""The package as people and type checkers see it."""

from __future__ import annotations

import ast
import inspect
import os
import pathlib
import re
import subprocess
import sys

import mpnanny
import pytest
import torch
from mpnanny import MixedPrecisionNanny, _core

ROOT = pathlib.Path(__file__).parents[2]
SOURCE = ROOT / "monitor" / "python" / "mpnanny"


def test_the_stub_names_what_the_extension_has():
    stub = ast.parse((SOURCE / "_core.pyi").read_text())
    functions = {node.name for node in stub.body if isinstance(node, ast.FunctionDef)}
    names = {node.target.id for node in stub.body if isinstance(node, ast.AnnAssign)}
    classes = {node.name: node for node in stub.body if isinstance(node, ast.ClassDef)}
    recorder = classes["Recorder"]
    methods = {node.name for node in recorder.body if isinstance(node, ast.FunctionDef)}

    def public(of: object) -> set[str]:
        return {name for name in vars(of) if not name.startswith("_")}

    assert functions | names == public(_core) - set(classes)
    assert methods - {"__init__"} == public(_core.Recorder)


def test_the_package_is_typed_and_whole():
    assert (SOURCE / "py.typed").exists()
    package = pathlib.Path(mpnanny.__file__).parent
    for file in SOURCE.rglob("*"):
        if file.is_file() and "__pycache__" not in file.parts:
            assert (package / file.relative_to(SOURCE)).exists(), file
    for name in mpnanny.__all__:
        assert inspect.getdoc(getattr(mpnanny, name)), name


def _run_module(*words: str, path: str = "/nowhere", **variables: str):
    """`python -m mpnanny …` with that PATH."""
    environment = {**os.environ, "PATH": path, **variables}
    command = [sys.executable, "-m", "mpnanny", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def _wheel(folder: pathlib.Path) -> str:
    """The package as a wheel lays it out, away from the build's programs."""
    package = pathlib.Path(mpnanny.__file__).parent
    (folder / "site" / "mpnanny").mkdir(parents=True)
    for part in package.iterdir():
        (folder / "site" / "mpnanny" / part.name).symlink_to(part.resolve())
    for name in ("_program.py", "__main__.py"):  # they look beside themselves
        (folder / "site" / "mpnanny" / name).unlink()
        (folder / "site" / "mpnanny" / name).write_bytes((package / name).read_bytes())
    return str(folder / "site")


def _program(path: pathlib.Path, says: str) -> None:
    """A program (no script) that says this."""
    path.parent.mkdir(parents=True, exist_ok=True)
    source = path.with_suffix(".c")
    source.write_text(
        f"#include <stdio.h>\nint main(int n, char** v)"
        f'{{ printf("{says} %s\\n", n > 1 ? v[1] : ""); return 3; }}\n'
    )
    subprocess.run(["cc", "-o", path, source], check=True)


def test_the_module_is_the_program():
    asked = _run_module("--version")
    assert asked.returncode == 0, asked.stderr
    assert asked.stdout.startswith("mpnanny "), asked.stdout
    assert _run_module("no-such-command").returncode == 2


def test_the_module_finds_the_program_of_a_wheel_and_on_the_path(tmp_path):
    site = _wheel(tmp_path)
    missing = _run_module("check", PYTHONPATH=site)
    assert missing.returncode == 2
    assert "MPNANNY_PROGRAM" in missing.stderr and "scripts/build" in missing.stderr
    # A script on the PATH may be what pip makes of this module: it is not started.
    script = tmp_path / "first" / "mpnanny"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m mpnanny "$@"\n')
    script.chmod(0o755)
    _program(tmp_path / "second" / "mpnanny", "on the path")
    path = f"{script.parent}{os.pathsep}{tmp_path / 'second'}"
    found = _run_module("check", path=path, PYTHONPATH=site)
    assert (found.returncode, found.stdout) == (3, "on the path check\n"), found.stderr
    assert _run_module("check", path=str(script.parent), PYTHONPATH=site).returncode == 2
    _program(tmp_path / "site" / "mpnanny" / "bin" / "mpnanny", "of the wheel")
    found = _run_module("check", path=path, PYTHONPATH=site)
    assert (found.returncode, found.stdout) == (3, "of the wheel check\n"), found.stderr


def test_what_pip_builds_needs_nothing_but_a_compiler():
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has no tomllib")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"].get("dependencies", []) == []  # torch is the user's
    assert project["tool"]["scikit-build"]["wheel"]["py-api"] == "cp310"


def test_every_option_is_on_the_page():
    page = (ROOT / "docs" / "monitor.md").read_text()
    for name in inspect.signature(MixedPrecisionNanny).parameters:
        assert f"`{name}`" in page or name == "model", name


def test_the_version_is_that_of_the_build():
    found = re.search(r"project\(mpnanny VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
    assert found is not None and mpnanny.__version__ == found[1]


def test_the_end_of_a_run_tells_the_verdict_and_so_does_its_summary(tmp_path, capfd):
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    nanny = MixedPrecisionNanny(model, db=str(tmp_path / "run.db"))
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).square().mean().backward()
        optimizer.step()
    assert nanny.summary()["verdict"] == ""  # it goes on
    nanny.close()
    verdict = nanny.summary()["verdict"]
    assert verdict.startswith("HEALTHY") and verdict in str(nanny.summary())
    assert f"mpnanny: {verdict}" in capfd.readouterr().err
