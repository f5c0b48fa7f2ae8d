"""What a training saves, against what it holds: copies that stand still, casts that make values 0
or infinite, and what a later load misses; and files that are right.
"""

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

STEPS = 20


class Training:
    def __init__(self, lr: float = 1e-2) -> None:
        self.model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 4))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=4)

    def steps(self, scaled: bool = False, scale: float = 1e-2) -> None:
        for step in range(STEPS):
            torch.manual_seed(step)
            self.optimizer.zero_grad()
            batch = torch.randn(16, 8)
            loss = scale * (self.model(batch) - batch[:, :4].sin()).square().mean()
            if scaled:
                self.scaler.scale(loss).backward()
                self.scaler.step(self.optimizer)
                self.scaler.update()
            else:
                loss.backward()
                self.optimizer.step()


Watch = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def watch(db: str, database: Callable[[], Database]) -> Watch:
    """What was found of `kind` while `program` ran with the model of `training`."""

    def run(training: Training, program: Callable[[], None], kind: str) -> list[dict[str, Any]]:
        with MixedPrecisionNanny(training.model, db=db, shadow="off", quiet=True):
            program()
        assert database().rows("SELECT * FROM event WHERE type = 'hook_failed'") == []
        found = [each for each in Finds(database()).all if each["kind"] == kind]
        for each in found:
            each["detail"] = json.loads(each["detail"])
        return found

    return run


def compact(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: compact(each) for key, each in tree.items()}
    if isinstance(tree, torch.Tensor) and tree.dim() and tree.is_floating_point():
        return tree.half()
    return tree


# --- when it is saved ---


@pytest.mark.parametrize("later", [False, True])
def test_weights_that_were_copied_once_beside_an_optimizer_of_now(watch, tmp_path, later):
    training = Training()
    saved: dict[str, Any] = {}

    def program() -> None:
        if later:
            training.steps()
        saved["model"] = copy.deepcopy(training.model.state_dict())
        training.steps()
        saved["optimizer"] = training.optimizer.state_dict()
        torch.save(saved, tmp_path / "state.pt")  # stale

    (found,) = watch(training, program, "saved_otherwise")
    assert found["line"].endswith("# stale")
    # Weights of before the first step are nobody's choice; older ones may be the best so far.
    assert found["severity"] == ("INFO" if later else "WARNING")


def test_second_moments_that_become_zero_in_the_file(watch, tmp_path):
    training = Training()

    def compacts() -> None:
        training.steps()
        state = training.optimizer.state_dict()
        state["state"] = {key: compact(each) for key, each in state["state"].items()}
        torch.save({"model": training.model.state_dict(), "optimizer": state}, tmp_path / "a.pt")

    (found,) = watch(training, compacts, "saved_otherwise")
    assert (found["severity"], found["precision"]) == ("WARNING", "proven")
    assert found["detail"]["what"] == "exp_avg_sq" and found["dtype"] == "float16"
    assert found["detail"]["share"] > 0.5 and found["detail"]["count"] == 4
    assert found["line"] == "return tree.half()"


def test_weights_that_an_export_makes_infinite(watch, tmp_path):
    training = Training()
    with torch.no_grad():
        training.model[2].bias.fill_(1e5)

    def program() -> None:
        training.steps(scale=1e-12)
        torch.save(compact(training.model.state_dict()), tmp_path / "half.pt")

    (found,) = watch(training, program, "saved_otherwise")
    assert (found["detail"]["what"], found["dtype"]) == ("weights", "float16")


def _as_it_is(training: Training) -> Any:
    return {"model": training.model.state_dict(), "optimizer": training.optimizer.state_dict()}


def _with_the_best(training: Training) -> Any:
    best = {key: torch.zeros_like(each) for key, each in training.model.state_dict().items()}
    return _as_it_is(training) | {"best": best}


def _an_average(training: Training) -> Any:
    return {key: each / 2 for key, each in training.model.state_dict().items()}


@pytest.mark.parametrize(
    "content",
    [
        _as_it_is,
        _with_the_best,
        _an_average,
        lambda training: compact(training.model.state_dict()),
        lambda training: training.model.state_dict(),
        lambda training: [1, "text", None],
    ],
)
def test_files_that_are_right(watch, tmp_path, content):
    training = Training()

    def program() -> None:
        training.steps()
        torch.save(content(training), tmp_path / "state.pt")
        training.steps()
        torch.save(content(training), tmp_path / "state.pt")

    assert watch(training, program, "saved_otherwise") == []


def test_the_file_is_what_it_would_have_been(watch, tmp_path):
    training = Training()

    def program() -> None:
        training.steps()
        torch.save(_as_it_is(training), tmp_path / "state.pt")

    watch(training, program, "saved_otherwise")
    saved = torch.load(tmp_path / "state.pt")
    for name, each in training.model.state_dict().items():
        assert torch.equal(saved["model"][name], each)


# --- when it is loaded ---


def save(training: Training, file: pathlib.Path, *names: str) -> None:
    torch.save({name: getattr(training, name).state_dict() for name in names}, file)  # saves


def test_a_loss_scale_that_is_not_in_the_file(watch, tmp_path):
    first, second, file = Training(), Training(), tmp_path / "state.pt"

    def begins() -> None:
        first.steps(scaled=True)
        save(first, file, "model", "optimizer")

    watch(first, begins, "not_restored")

    def goes_on() -> None:
        saved = torch.load(file)
        second.model.load_state_dict(saved["model"])
        second.optimizer.load_state_dict(saved["optimizer"])  # loads
        second.steps(scaled=True)

    (found,) = watch(second, goes_on, "not_restored")
    assert found["severity"] == "WARNING" and found["line"].endswith("# saves")
    assert "loss scale was" in found["detail"]["what"]


@pytest.mark.parametrize("lr", [1e-2, 1e-3])
def test_an_optimizer_that_is_not_in_the_file(watch, tmp_path, lr):
    first, second, file = Training(), Training(lr), tmp_path / "state.pt"

    def begins() -> None:
        for _ in range(4):
            first.steps()
        save(first, file, "model")

    watch(first, begins, "not_restored")

    def goes_on() -> None:
        saved = torch.load(file)
        second.model.load_state_dict(saved["model"])  # loads
        second.steps()

    found = watch(second, goes_on, "not_restored")
    if lr == 1e-3:  # it is set otherwise: another training begins
        assert found == []
        return
    assert "not saved" in found[0]["detail"]["what"]
    before, after = (found[0]["detail"][key] for key in ("loss_before", "loss_after"))
    assert (found[0]["severity"] == "WARNING") == (after > 1.2 * before)


def test_everything_that_changes_is_in_the_file(watch, tmp_path):
    first, second, file = Training(), Training(), tmp_path / "state.pt"

    def begins() -> None:
        first.steps(scaled=True)
        save(first, file, "model", "optimizer", "scaler")

    watch(first, begins, "not_restored")

    def goes_on() -> None:
        saved = torch.load(file)
        for name, each in saved.items():
            getattr(second, name).load_state_dict(each)
        second.steps(scaled=True)

    assert watch(second, goes_on, "not_restored") == []


def test_a_training_that_takes_its_best_weights_back(watch, tmp_path):
    training = Training()

    def program() -> None:
        training.steps()
        torch.save(training.model.state_dict(), tmp_path / "best.pt")
        training.steps()
        training.model.load_state_dict(torch.load(tmp_path / "best.pt"))
        training.steps()

    assert watch(training, program, "not_restored") == []


def test_a_training_that_goes_back_to_a_file_without_its_loss_scale(watch, tmp_path):
    training = Training()

    def program() -> None:
        training.steps(scaled=True)
        save(training, tmp_path / "state.pt", "model", "optimizer")
        training.steps(scaled=True)
        saved = torch.load(tmp_path / "state.pt")
        training.model.load_state_dict(saved["model"])
        training.optimizer.load_state_dict(saved["optimizer"])
        training.steps(scaled=True)

    assert watch(training, program, "not_restored") == []


# --- names that do not fit ---


@pytest.mark.parametrize("way", ["given", "filtered", "updated"])
def test_states_that_a_load_left_out(watch, tmp_path, way):
    first, second = Training(), Training()
    first.steps()
    state = {
        f"module.{name}" if name.startswith("0") else name: each
        for name, each in first.model.state_dict().items()
    }
    torch.save({"model": state}, tmp_path / "state.pt")

    def program() -> None:
        saved = torch.load(tmp_path / "state.pt")["model"]
        own = second.model.state_dict()
        if way != "given":
            saved = {name: each for name, each in saved.items() if name in own}
        if way == "updated":
            saved = own | saved
        second.model.load_state_dict(saved, strict=False)  # loads
        second.steps()

    (found,) = watch(second, program, "not_restored")
    assert found["severity"] == "WARNING" and found["line"].endswith("# loads")
    assert found["detail"]["parameters"] == ["0.weight", "0.bias"]
    assert "module.0.weight" in found["detail"]["what"]


def test_states_that_were_renamed_and_a_new_head(watch, tmp_path):
    first, second, third = Training(), Training(), Training()
    first.steps()
    torch.save({f"module.{n}": e for n, e in first.model.state_dict().items()}, tmp_path / "a.pt")

    def renamed() -> None:
        saved = torch.load(tmp_path / "a.pt")
        second.model.load_state_dict({name[7:]: each for name, each in saved.items()})
        second.model[2].reset_parameters()  # a new head, on purpose
        second.steps()

    def backbone() -> None:
        saved = torch.load(tmp_path / "a.pt")
        saved = {name[7:]: each for name, each in saved.items() if "0." in name}
        third.model.load_state_dict(saved, strict=False)
        third.steps()

    assert watch(second, renamed, "not_restored") == []
    assert watch(third, backbone, "not_restored") == []
