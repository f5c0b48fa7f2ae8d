"""`mpnanny run -- COMMAND` of a Python that trains nothing: a record says what was seen instead."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest
from conftest import PACKAGE, Database

PROGRAM = PACKAGE.parent / "bin" / "mpnanny"

if not PROGRAM.exists():
    pytest.skip(f"{PROGRAM} is not built", allow_module_level=True)

TRAINING = """
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
for step in range(3):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).mean().backward()
    optimizer.step()
"""
NOT_IMPORTED = "nothing was watched: torch was not imported"


class Ran:
    def __init__(self, folder: pathlib.Path, program: str, *options: str) -> None:
        (folder / "train.py").write_text(textwrap.dedent(TRAINING))
        (folder / "program.py").write_text(textwrap.dedent(program))
        plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self.done = subprocess.run(
            [PROGRAM, "run", *options, "--", sys.executable, "program.py"],
            cwd=folder,
            env={**plain, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        self.path = folder / "nanny_logs" / "metrics.db"

    @property
    def runs(self) -> list[dict]:
        return Database(self.path).rows("SELECT * FROM run ORDER BY run_id")

    @property
    def notes(self) -> list[str]:
        (run,) = self.runs
        assert run["name"] == f"{self.path.parent.parent.name}/program"
        assert Database(self.path).rows("SELECT * FROM step") == []
        return json.loads(run["notes"])


@pytest.mark.parametrize(
    ("program", "note"),
    [
        ("print(1)", NOT_IMPORTED),
        (
            "import torch",
            "nothing was watched: torch was imported, no module was made,"
            " backward() was not called and no optimizer stepped",
        ),
        (
            "import torch; net = torch.nn.Sequential(torch.nn.Linear(2, 2)); net(torch.ones(2))",
            "nothing was watched: torch was imported, modules were made (Sequential),"
            " backward() was not called and no optimizer stepped",
        ),
        (
            "import torch; net = torch.nn.Linear(2, 2); net(torch.ones(2)).sum().backward()",
            "nothing was watched: torch was imported, modules were made (Linear),"
            " backward() was called 1 time and no optimizer stepped",
        ),
    ],
)
@pytest.mark.parametrize("shadow", ["auto", "off"])
def test_what_was_seen_is_a_note_and_a_line(tmp_path, program, note, shadow):
    ran = Ran(tmp_path, program, "--shadow", shadow)
    said = f"mpnanny: {note}; recorded into {ran.path}\n"
    assert (ran.done.returncode, ran.done.stderr) == (0, said)
    assert ran.notes == [note]


def test_quiet_and_a_failure_of_the_program_are_as_ever(tmp_path):
    ran = Ran(tmp_path, "raise SystemExit(3)", "--quiet")
    assert (ran.done.returncode, ran.done.stdout, ran.done.stderr) == (3, "", "")
    assert ran.notes == [NOT_IMPORTED]


def test_a_program_that_dies_has_ended_with_an_exception(tmp_path):
    ran = Ran(tmp_path, "import torch\nraise KeyError(1)", "--quiet")
    assert ran.done.returncode == 1 and ran.done.stderr.endswith("KeyError: 1\n")
    assert ran.notes and ran.runs[0]["end_reason"] == "exception"


def test_an_optimizer_of_tensors_without_a_loss_is_watched(tmp_path):
    """Nothing but its own step shows them: no module holds them, no backward pass was heard."""
    ran = Ran(
        tmp_path,
        """
        import torch
        weight = torch.ones(2, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.1)
        for step in range(3):
            weight.grad = torch.ones(2) * 2
            optimizer.step()
        """,
    )
    assert [run["name"] for run in ran.runs] == [f"{tmp_path.name}/program"]
    steps = Database(ran.path).rows("SELECT * FROM step ORDER BY step")
    assert [row["step"] for row in steps] == [0, 1, 2]
    assert [round(row["grad_norm"], 4) for row in steps] == [2.8284] * 3


@pytest.mark.parametrize("launcher", ["", "import torch; torch.ones(3).sum().item()\n"])
def test_what_a_program_starts_is_the_record_where_it_trains(tmp_path, launcher):
    """Helpers that do nothing leave none."""
    ran = Ran(
        tmp_path,
        launcher
        + "import subprocess, sys\n"
        + "subprocess.run([sys.executable, '-c', 'print(1)'], check=True)\n"
        + "subprocess.run([sys.executable, 'train.py'], check=True)\n",
    )
    assert [run["name"] for run in ran.runs] == [f"{tmp_path.name}/train"]


def test_a_training_that_watches_itself_leaves_its_own_record_only(tmp_path):
    ran = Ran(
        tmp_path,
        TRAINING.replace(
            "optimizer =",
            "from mpnanny import MixedPrecisionNanny\n"
            "nanny = MixedPrecisionNanny(model, db='own.db', quiet=True)\noptimizer =",
        ),
    )
    assert len(Database(tmp_path / "own.db").rows("SELECT * FROM step")) == 3
    assert not ran.path.exists() and ran.done.stderr == ""
