"""The tape of each shadow step as a file: `mpnanny tape` finds on it what the training was told."""

from __future__ import annotations

import json
import pathlib
import subprocess

import pytest
import torch
from finds import Finds, inputs
from mpnanny import MixedPrecisionNanny
from mpnanny.shadow.tape import Tape
from torch import nn

MPNANNY = pathlib.Path(__file__).parents[2] / "build/release/bin/mpnanny"


@pytest.fixture
def told(monkeypatch, tmp_path):
    """What the training's own judge found in each shadow step, by the name of its tape."""
    monkeypatch.setenv("MPNANNY_TAPE", str(tmp_path / "new" / "tapes"))
    steps = {}
    finish = Tape.finish

    def noted(self):
        found = finish(self)
        steps[f"step{self._step:08}.tape"] = [(each.kind, each.number) for each in found]
        return found

    monkeypatch.setattr(Tape, "finish", noted)
    return steps


def overflows(_step: int, model: nn.Module) -> torch.Tensor:
    return (model(inputs().half()) * 100).pow(4).float().mean()


def is_undefined(_step: int, model: nn.Module) -> torch.Tensor:
    return (model(inputs().half()).float().abs().neg() - 1).sqrt().mean()


def cancels(_step: int, model: nn.Module) -> torch.Tensor:
    return ((model(inputs().half()).bfloat16() + 1000) - 1000).float().square().mean()


@pytest.mark.parametrize("loss", [overflows, is_undefined, cancels])
def test_a_tape_yields_what_was_found_when_it_was_recorded(train, told, tmp_path, loss):
    model = nn.Linear(8, 8).half()
    train(model, lambda step: loss(step, model), steps=4)
    files = sorted((tmp_path / "new" / "tapes").iterdir())
    assert [file.name for file in files] == sorted(told) and len(files) >= 4
    words = [MPNANNY, "tape", *files, "--format", "json"]
    answer = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
    for file, tape in zip(files, answer["tapes"], strict=True):
        found = [(each["kind"], each["call"]) for each in tape["findings"]]
        assert found == told[file.name]
        assert tape["unanswered"] == 0
    assert any(told.values())


def test_without_the_variable_nothing_is_kept(train, monkeypatch):
    monkeypatch.delenv("MPNANNY_TAPE", raising=False)
    kept = []
    finish = Tape.finish
    monkeypatch.setattr(
        Tape, "finish", lambda self: (kept.append(self.judge.tape()), finish(self))[1]
    )
    model = nn.Linear(8, 8).half()
    train(model, lambda step: overflows(step, model), steps=1)
    assert kept and set(kept) == {None}


def test_a_folder_that_cannot_be_made_is_noted_and_costs_no_finding(
    db, database, monkeypatch, tmp_path
):
    file = tmp_path / "a file"
    file.write_text("")
    monkeypatch.setenv("MPNANNY_TAPE", str(file / "tapes"))
    model = nn.Linear(8, 8).half()
    descent = torch.optim.SGD(model.parameters(), lr=1e-3)
    with MixedPrecisionNanny(model, db=db, shadow="every=1", quiet=True):
        overflows(0, model).backward()
        descent.step()
    assert Finds(database()).first()["kind"] == "range"
    (failed,) = database().rows("SELECT * FROM event WHERE type = 'hook_failed'")
    assert "Not a directory" in failed["detail"]
