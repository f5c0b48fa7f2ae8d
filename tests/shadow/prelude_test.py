"""Under `mpnanny run` shadow steps begin with the program's first tensor, and programs that train
nothing leave a record, too.
"""

from __future__ import annotations

import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

import pytest
from evaluate import MPNANNY
from forked_python import forked_python

if not MPNANNY.exists():
    pytest.skip(f"{MPNANNY} is not built", allow_module_level=True)

TRAINING = """
import torch
from torch import nn
torch.manual_seed(0)
{before}
model = nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for step in range({steps}):
    x = torch.randn(16, 8)
    loss = {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {after}
print("weights", float(model.weight.double().sum()).hex())
"""


class Ran:
    """A program under `mpnanny run`, and what its record says."""

    def __init__(
        self, folder: pathlib.Path, program: str, *options: str, python: Sequence[str] = ()
    ) -> None:
        script = folder / "program.py"
        script.write_text(textwrap.dedent(program))
        self.lines = script.read_text().splitlines()
        database = folder / "metrics.db"
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        python = python or forked_python()
        self.done = subprocess.run(
            [MPNANNY, "run", "--db", database, *options, "--", *python, script],
            cwd=folder,
            env={**environment, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert self.done.returncode == 0, self.done.stderr
        self.database = database

    def rows(self, query: str) -> list[dict[str, Any]]:
        with sqlite3.connect(f"file:{self.database}?mode=ro", uri=True) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(query)]

    def findings(self) -> list[dict[str, Any]]:
        found = self.rows("SELECT * FROM shadow_finding ORDER BY severity = 'INFO', finding_id")
        for each in found:
            number = int((each["source"] or ":0").rpartition(":")[2])
            each["line"] = self.lines[number - 1].strip() if number else ""
        return found

    @property
    def notes(self) -> list[str]:
        texts: list[str] = json.loads(self.rows("SELECT notes FROM run")[0]["notes"] or "[]")
        return texts


def training(before: str = "", loss: str = "model(x).square().mean()", after: str = "") -> str:
    return TRAINING.format(before=before, loss=loss, after=after, steps=3)


def test_a_table_that_is_computed_before_the_training_is_followed_to_the_loss(tmp_path):
    table = "rate = 1 - torch.linspace(1e-4, 1e-3, 8).bfloat16()\nlog = torch.log(rate).float()"
    program = training(table, "(model(x) * log * 1e3).square().mean()")
    ran = Ran(tmp_path, program, python=[sys.executable])  # which sees torch being imported
    first = ran.findings()[0]
    assert first["line"].startswith("rate = 1 -") or first["line"].startswith("log =")
    assert first["severity"] == "WARNING" and first["precision"] == "proven"
    assert {each["what"] for each in json.loads(first["reach"])} >= {"loss"}
    assert first["step"] == 0


def test_a_program_is_the_same_with_and_without_its_prelude(tmp_path):
    table = "table = torch.arange(4096).bfloat16().cumsum(0).float() / 1e7"
    program = training(table, "(model(x) * table[:8]).square().mean() + torch.rand(()) * 0")
    seen, unseen = (
        Ran(tmp_path, program, *options).done.stdout for options in ((), ("--shadow", "off"))
    )
    assert seen == unseen and "weights" in seen


def test_a_program_that_trains_nothing_leaves_a_record_with_what_was_found(tmp_path):
    ran = Ran(
        tmp_path,
        """
        import torch
        x = torch.full((100_000,), 3.0).half()
        total = x.sum()
        print(float(total))
        """,
    )
    assert any("nothing was watched" in note for note in ran.notes)
    first = ran.findings()[0]
    assert (first["kind"], first["severity"], first["line"]) == (
        "range",
        "ERROR",
        "total = x.sum()",
    )
    assert first["precision"] == "proven"


def test_torch_compile_ends_the_prelude(tmp_path):
    ran = Ran(
        tmp_path,
        """
        import torch
        from torch import nn
        table = torch.ones(4).half()
        model = nn.Linear(4, 4)
        compiled = torch.compile(model, backend="eager")
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        for step in range(3):
            optimizer.zero_grad()
            compiled(torch.randn(2, 4)).sum().backward()
            optimizer.step()
        """,
    )
    assert ran.rows("SELECT count(*) AS n FROM event WHERE type = 'hook_failed'") == [{"n": 0}]


def test_a_worker_that_is_forked_during_the_prelude_works(tmp_path):
    ran = Ran(
        tmp_path,
        """
        import torch
        class Rows(torch.utils.data.Dataset):
            def __len__(self):
                return 8
            def __getitem__(self, index):
                return torch.full((4,), float(index)).half().exp().float()
        loader = torch.utils.data.DataLoader(Rows(), batch_size=4, num_workers=1)
        print(sum(float(batch.sum()) for batch in loader))
        """,
    )
    assert "not watching" not in ran.done.stderr


@pytest.mark.parametrize("shadow", ["auto", "every=3"])
def test_an_evaluation_between_steps_is_looked_at_where_shadow_is_auto(tmp_path, shadow):
    """Its metric is a sum in BF16 that stops growing; what comes of it is read."""
    evaluation = """if step == 13:
        model.eval()
        total = torch.zeros((), dtype=torch.bfloat16)
        with torch.no_grad():
            model(x)
            for row in range(400):
                total += torch.ones(())
        model.train()
        print(total.item())"""
    program = TRAINING.format(
        before="", loss="model(x).square().mean()", after=evaluation, steps=15
    )
    ran = Ran(tmp_path, program, "--shadow", shadow)
    lines = {each["line"] for each in ran.findings() if each["severity"] == "WARNING"}
    looked_at = {row["why"] for row in ran.rows("SELECT why FROM shadow_step")}
    assert ("evaluation" in looked_at) == (shadow == "auto")
    assert lines == ({"total += torch.ones(())"} if shadow == "auto" else set())
