"""Reported faults and their twins: what `diagnose` says, against tests/cases/*/expected.json."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
from typing import Any

import pytest
from forked_python import forked_python

ROOT = pathlib.Path(__file__).parents[2]
CASES = pathlib.Path(__file__).parent
BUILD = ROOT / "build/release"
PROGRAM = BUILD / "bin/mpnanny"
SECONDS = 600

TABLES = {path.parent.name: json.loads(path.read_text()) for path in CASES.glob("*/expected.json")}


def _listed() -> list[Any]:
    """A parameter of the tests for every file of the tables."""
    listed = []
    for case in sorted(TABLES):
        for file, expected in TABLES[case]["answers"].items():
            marks = []
            if "part" in expected:
                reason = f"part {expected['part']} brings it"
                marks.append(pytest.mark.xfail(reason=reason, strict=False))
            listed.append(pytest.param(case, file, expected, id=f"{case}/{file}", marks=marks))
    return listed


def _environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(BUILD / "python")}


def _train(folder: pathlib.Path, file: str, expected: dict[str, Any]) -> list[pathlib.Path]:
    """Runs a training as its reporter would; answers with what was recorded."""
    for program in expected.get("before", []):
        subprocess.run(
            [*forked_python(), program],
            cwd=folder,
            env=_environment(),
            timeout=SECONDS,
            capture_output=True,
        )
    ranks = expected.get("torchrun")
    torchrun = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={ranks}"]
    python = torchrun if ranks else forked_python()
    command = [PROGRAM, "run", *expected.get("options", []), "--", *python, file]
    subprocess.run(command, cwd=folder, env=_environment(), timeout=SECONDS, capture_output=True)
    return sorted((folder / "nanny_logs").glob("*.db"))


def _ask(path: pathlib.Path, form: str) -> str:
    run = subprocess.run(
        [PROGRAM, "diagnose", str(path), "--format", form], capture_output=True, text=True
    )
    assert run.returncode in (0, 1), run.stderr
    return run.stdout


def _faults(path: pathlib.Path) -> set[str]:
    lines = path.read_text().splitlines()
    return {f"{path.name}:{i}" for i, line in enumerate(lines, 1) if line.endswith("# @fault")}


def _named_lines(answer: dict[str, Any]) -> str:
    """Where the answer says that the fault lies: its first bad place and its first cause."""
    first = (answer.get("hypotheses") or [{}])[0]
    bad = answer.get("first_bad") or {}
    told = [bad.get("source"), bad.get("cure"), bad.get("what"), first.get("title")]
    return json.dumps([*told, first.get("fix"), first.get("evidence"), answer["headline"]])


def _holds(text: str, place: str) -> bool:
    """Whether a text names "file.py:12", and not "file.py:123"."""
    at = text.find(place)
    while at >= 0:
        if not text[at + len(place) : at + len(place) + 1].isdigit():
            return True
        at = text.find(place, at + 1)
    return False


def _one_of(value: Any, wanted: Any) -> bool:
    return value in wanted if isinstance(wanted, list) else value == wanted


@pytest.mark.parametrize(("case", "file", "expected"), _listed())
def test_the_answer_is_right(
    case: str, file: str, expected: dict[str, Any], tmp_path: pathlib.Path, slow: bool
) -> None:
    if expected.get("long") and not slow:
        pytest.skip("takes long: --slow")
    if missing := [
        name for name in expected.get("needs", []) if not importlib.util.find_spec(name)
    ]:
        pytest.skip(f"{', '.join(missing)} is not installed")
    folder = tmp_path / case
    shutil.copytree(CASES / case, folder)
    asked = folder / file
    if file.endswith(".py"):
        recorded = _train(folder, file, expected)
        assert recorded, "nothing was recorded"
        asked = recorded[0]
    answer = json.loads(_ask(asked, "json"))
    text = _ask(asked, "text")

    if "verdict" in expected:
        assert _one_of(answer["verdict"], expected["verdict"]), text
    causes = answer.get("hypotheses") or []
    if expected.get("verdict") == "healthy":
        assert not causes, text
    first = causes[0] if causes else {}
    if expected.get("fault"):
        named = _named_lines(answer)
        assert any(_holds(named, place) for place in _faults(folder / file)), text
    if "case" in expected:
        assert first.get("cause") in expected["case"], text
    if "step" in expected:
        assert answer["first_bad"]["step"] == expected["step"], text
    if "precision" in expected:
        assert answer["first_bad"]["precision"] == expected["precision"], text
    said = " ".join([answer["headline"], str(first.get("title")), *(first.get("evidence") or [])])
    for words in expected.get("says", []):
        assert words in said, text
    for words in expected.get("never", []):
        assert words not in text, text


def test_at_most_a_fifth_of_the_faults_is_left_to_later_parts() -> None:
    faults = [
        expected
        for table in TABLES.values()
        for expected in table["answers"].values()
        if "healthy" not in expected.get("verdict", "")
    ]
    assert len([each for each in faults if "part" in each]) <= len(faults) / 5
