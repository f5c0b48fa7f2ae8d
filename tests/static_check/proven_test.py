"""What a rule says goes wrong does go wrong: programs that torch runs, with the line that is found.

Each has a function `bad_…` with the marked line, one `good_…`, and `fails(function)`: whether it
went wrong as the rule's page says.
"""

from __future__ import annotations

import importlib
import json
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
PROGRAM = HERE.parent.parent / "build" / "release" / "bin" / "mpnanny"
FILES = sorted((HERE / "proven").glob("*.py"))


def marks(file: pathlib.Path) -> list[tuple[int, str]]:
    lines = enumerate(file.read_text().splitlines(), 1)
    return [(at, line.partition("# bad: ")[2]) for at, line in lines if "# bad: " in line]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_bad_line_is_found(file):
    rule = marks(file)[0][1]
    found = []
    for detail, key in (("concise", "findings"), ("candidates", "candidates")):
        done = subprocess.run(
            [PROGRAM, "check", file, "--select", rule, "--detail", detail, "--format", "json"],
            capture_output=True,
            text=True,
            check=False,
        )
        found += json.loads(done.stdout)[key]
    # What is only a place to judge may be shown where it is right, too.
    assert set(marks(file)) <= {(each["line"], each["rule"]) for each in found}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_torch_agrees(file):
    pytest.importorskip("torch")
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))  # where child processes find its functions, too
    module = importlib.import_module(file.stem)
    bad = next(each for name, each in vars(module).items() if name.startswith("bad_"))
    good = next(each for name, each in vars(module).items() if name.startswith("good_"))
    assert module.fails(bad)
    assert not module.fails(good)
