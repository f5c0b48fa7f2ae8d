"""Programs that train in other forms than a module and an optimizer of torch's over its parameters,
under `mpnanny run`: each leaves a record of its steps, and prints the same bits as without it.

forms/ holds the programs, forms/labels.json what their records must say: how many steps, the first
one whose loss or gradient is not finite, how many trained tensors. Gradients of a first step may be
missing where nothing but its update shows that weights are trained.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest
from conftest import PACKAGE, Database

PROGRAM = PACKAGE.parent / "bin" / "mpnanny"
FORMS = pathlib.Path(__file__).parent / "forms"
LABELS = json.loads((FORMS / "labels.json").read_text())
BAD_LOSS, BAD_GRADIENT, SKIPPED = 3, 4, 8  # step.flags

if not PROGRAM.exists():
    pytest.skip(f"{PROGRAM} is not built", allow_module_level=True)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, pathlib.Path]:
    """The folders of all programs' output: without mpnanny, and with it."""
    plain = tmp_path_factory.mktemp("plain")
    watched = tmp_path_factory.mktemp("watched")
    for folder, launcher in (
        (plain, []),
        (watched, [PROGRAM, "run", "--db", watched / "serve.db", "--interval", "1", "--"]),
    ):
        subprocess.run(
            [*launcher, sys.executable, FORMS / "serve.py", folder, *LABELS],
            env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
            | {"OMP_NUM_THREADS": "1"},
            capture_output=True,
            timeout=600,
            check=True,
        )
    return plain, watched


def _said(folder: pathlib.Path, program: str) -> list[str]:
    lines = (folder / f"{program}.out").read_text().splitlines()
    return [line for line in lines if line.startswith(("loss ", "weights "))]


def _losses(folder: pathlib.Path, program: str) -> list[float]:
    words = [line.split() for line in _said(folder, program)]
    return [float.fromhex(each[1]) for each in words if each[0] == "loss"]


@pytest.mark.parametrize("program", LABELS)
def test_it_prints_the_same_bits(ran, program):
    plain, watched = ran
    assert _said(plain, program) == _said(watched, program)
    assert len(_losses(plain, program)) == LABELS[program]["steps"]


@pytest.mark.parametrize("program", LABELS)
def test_its_steps_losses_and_first_bad_values_are_recorded(ran, program):
    plain, watched = ran
    label = LABELS[program]
    database = Database(watched / f"{program}.db")
    steps = database.rows("SELECT * FROM step ORDER BY step")
    assert [row["step"] for row in steps] == list(range(label["steps"]))
    bad = [row["step"] for row in steps if row["flags"] & BAD_LOSS]
    assert (bad or [None])[0] == label["bad_loss"]
    for row, loss in zip(steps, _losses(plain, program), strict=True):
        if not row["flags"] & BAD_LOSS:
            assert row["loss"] == pytest.approx(loss, rel=1e-6), row["step"]
    skipped = [row["step"] for row in steps if row["flags"] & SKIPPED]
    assert skipped == label.get("skipped", [])
    bad = [
        row["step"] for row in steps if row["flags"] & BAD_GRADIENT and row["step"] not in skipped
    ]
    assert (bad or [None])[0] == label["bad_gradient"]
    norms = [row["grad_norm"] for row in steps[1:] if not row["flags"] & BAD_GRADIENT]
    assert None not in norms
    weights = database.rows("SELECT DISTINCT layer_id FROM tensor_stats WHERE kind = 3")
    assert len(weights) == label["weights"]


@pytest.mark.parametrize(
    "program", [name for name, label in LABELS.items() if label.get("operator")]
)
def test_a_shadow_step_names_the_operator_and_its_line(ran, program):
    _, watched = ran
    lines = (FORMS / f"{program}.py").read_text().splitlines()
    (fault,) = [at for at, line in enumerate(lines, 1) if "# @fault" in line]
    database = Database(watched / f"{program}.db")
    found = database.rows("SELECT * FROM shadow_finding WHERE severity = 'ERROR' ORDER BY step")
    sources = [(row["step"], (row["source"] or "").rpartition("/")[2]) for row in found]
    step = LABELS[program]["bad_loss"]
    assert (step, f"{program}.py:{fault}") in sources


@pytest.mark.parametrize("program", [name for name in LABELS if "also" in LABELS[name]])
def test_another_model_has_a_record_of_its_own(ran, program):
    _, watched = ran
    database = Database(watched / f"{LABELS[program]['also']}.db")
    steps = database.rows("SELECT * FROM step ORDER BY step")
    assert [row["step"] for row in steps] == list(range(LABELS[program]["steps"]))
    assert all(row["grad_norm"] is not None and row["loss"] is not None for row in steps)


def test_what_is_not_known_without_an_optimizer_is_a_note(ran):
    _, watched = ran
    by_hand = [name for name in LABELS if LABELS[name].get("by_hand")]
    assert by_hand
    for program in LABELS:
        notes = Database(watched / f"{program}.db").one("SELECT notes FROM run")["notes"] or "[]"
        told = any("no optimizer of torch's" in note for note in json.loads(notes))
        assert told == (program in by_hand), program
