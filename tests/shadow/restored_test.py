"""Resumed trainings: which of the states that were saved together are held again."""

from __future__ import annotations

import copy
import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from conftest import Database
from finds import Finds
from mpnanny import MixedPrecisionNanny
from torch import nn

STEPS = 4


class Training:
    """Model, optimizer, scaler and schedule, all of which have a state."""

    def __init__(self, lr: float = 1e-2) -> None:
        self.model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, 0.5)
        self.average = torch.optim.swa_utils.AveragedModel(self.model)

    def step(self) -> None:
        self.optimizer.zero_grad()
        loss = self.model(torch.randn(16, 8)).square().mean()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.schedule.step()
        self.average.update_parameters(self.model)

    def save(self, file: pathlib.Path) -> None:
        names = ("model", "optimizer", "scaler", "schedule", "average")
        torch.save({name: getattr(self, name).state_dict() for name in names}, file)

    def load(self, file: pathlib.Path, *names: str) -> None:
        saved = torch.load(file)
        for name in names:
            getattr(self, name).load_state_dict(saved[name])


@pytest.fixture
def resume(
    db: str, database: Callable[[], Database], tmp_path: pathlib.Path
) -> Callable[..., list[dict[str, Any]]]:
    """Trains and saves, then goes on with another one that `load` has given its state."""

    def run(load: Callable[[Training, pathlib.Path], None], lr: float = 1e-2) -> Any:
        torch.manual_seed(0)
        first, file = Training(), tmp_path / "state.pt"
        for _ in range(STEPS):
            first.step()
        first.save(file)
        del first
        second = Training(lr)
        with MixedPrecisionNanny(second.model, db=db, shadow="off", quiet=True):
            load(second, file)
            for _ in range(STEPS):
                second.step()
        assert database().rows("SELECT * FROM event WHERE type = 'hook_failed'") == []
        found = [each for each in Finds(database()).all if each["kind"] == "not_restored"]
        for each in found:
            each["detail"] = json.loads(each["detail"])
        return found

    return run


ALL = ("model", "optimizer", "scaler", "schedule", "average")


def test_everything_restored_is_nothing_to_say(resume):
    assert resume(lambda second, file: second.load(file, *ALL)) == []


@pytest.mark.parametrize("missing", ALL[1:])
def test_one_state_that_is_not_restored_is_named_with_the_line_of_the_load(resume, missing):
    def load(second: Training, file: pathlib.Path) -> None:
        second.load(file, *(name for name in ALL if name != missing))

    (found,) = resume(load)
    assert found["severity"] == "WARNING" and found["precision"] == "excluded"
    assert found["line"] == "getattr(self, name).load_state_dict(saved[name])"
    assert set(found["detail"]["saved"]) == set(ALL)
    assert set(found["detail"]["saved"]) - set(found["detail"]["restored"]) == {missing}
    assert missing in found["detail"]["what"]


def test_weights_alone_in_the_same_training_are_a_warning(resume):
    (found,) = resume(lambda second, file: second.load(file, "model"))
    assert found["severity"] == "WARNING"
    assert "exp_avg" in found["detail"]["what"] and "loss scale" in found["detail"]["what"]


def test_weights_alone_for_another_training_are_a_note(resume):
    (found,) = resume(lambda second, file: second.load(file, "model"), lr=1e-4)
    assert found["severity"] == "INFO"


def test_the_weights_of_another_model_and_copies_of_states_are_nothing(resume):
    def other(second: Training, file: pathlib.Path) -> None:
        Training().load(file, "model")

    def copies(second: Training, file: pathlib.Path) -> None:
        saved = copy.deepcopy(torch.load(file))
        for name in ALL:
            getattr(second, name).load_state_dict(saved[name])

    assert resume(other) == []
    assert resume(copies) == []


def test_the_best_weights_within_a_training_are_a_note(db, database, tmp_path):
    torch.manual_seed(0)
    training, file = Training(), tmp_path / "best.pt"
    with MixedPrecisionNanny(training.model, db=db, shadow="off", quiet=True):
        for step in range(2 * STEPS):
            if step == STEPS:
                training.load(file, "model")
            training.step()
            if step == 1:
                training.save(file)
    assert Finds(database()).severe == []


def test_a_moment_that_was_saved_as_nan_is_restored_and_said_as_what_it_is(db, database, tmp_path):
    torch.manual_seed(0)
    first, file = Training(), tmp_path / "state.pt"
    first.step()
    first.optimizer.state[first.model[2].weight]["exp_avg"].fill_(float("nan"))
    first.save(file)
    second = Training()
    with MixedPrecisionNanny(second.model, db=db, shadow="off", quiet=True):
        second.load(file, *ALL)
        second.step()
    found = Finds(database())
    assert "not_restored" not in {each["kind"] for each in found.all}
    first_found = found.first()
    detail = json.loads(first_found["detail"])
    assert (first_found["kind"], first_found["phase"]) == ("undefined", "state")
    assert first_found["step"] == 0
    assert (detail["carrier"], detail["whose"]) == ("state", "exp_avg of Adam")
    assert first_found["line"] == "getattr(self, name).load_state_dict(saved[name])"
