"""Weights that an evaluation casts to 16 bits and the training goes on with, and right casts."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from conftest import Database
from finds import Finds, inputs
from mpnanny import MixedPrecisionNanny
from torch import nn

STEPS = 40


@pytest.fixture
def run(db: str, database: Callable[[], Database]) -> Callable[..., list[dict[str, Any]]]:
    def train(
        evaluate: Callable[[nn.Module], None],
        every: int = 10,
        model: nn.Module | None = None,
        steps: int = STEPS,
    ) -> list[dict[str, Any]]:
        model = network() if model is None else model
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        with MixedPrecisionNanny(model, db=db, shadow="off", quiet=True):
            for step in range(steps):
                optimizer.zero_grad()
                batch = inputs().to(next(model.parameters()).dtype)
                model(batch).float().square().mean().backward()
                optimizer.step()
                if step % every == every - 1:
                    evaluate(model)
        assert database().rows("SELECT * FROM event WHERE type = 'hook_failed'") == []
        found = [each for each in Finds(database()).all if each["kind"] == "recast"]
        for each in found:
            each["detail"] = json.loads(each["detail"])
        return found

    torch.manual_seed(0)
    return train


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))


def half(model: nn.Module) -> None:
    model.half()  # casts
    with torch.no_grad():
        model(inputs().half())
    model.float()


@pytest.mark.parametrize("steps", [STEPS, 200])
def test_a_model_that_is_cast_and_cast_back(run, steps):
    (found,) = run(half, steps=steps)
    assert (found["severity"], found["precision"]) == ("WARNING", "proven")
    assert found["line"] == "model.half()  # casts" and found["dtype"] == "float16"
    assert found["step"] == 10 and found["detail"]["since"] == 10
    assert "0.weight" in found["detail"]["parameters"]


def test_a_model_that_stays_cast_is_an_error(run):
    def export(model: nn.Module) -> None:
        model.to(torch.bfloat16)  # casts

    (found,) = run(export, every=30)
    assert (found["severity"], found["dtype"]) == ("ERROR", "bfloat16")
    assert found["line"] == "model.to(torch.bfloat16)  # casts" and found["step"] == 30


def test_weights_that_are_rounded_by_hand(run):
    def rounds(model: nn.Module) -> None:
        for each in model.parameters():
            each.data = each.data.to(torch.bfloat16).float()

    (found,) = run(rounds)
    assert (found["severity"], found["dtype"]) == ("WARNING", "bfloat16")


# --- what is right ---


def test_a_copy_that_is_cast(run):
    assert run(lambda model: half(copy.deepcopy(model))) == []


def test_a_model_that_gets_its_own_weights_back(run):
    def evaluate(model: nn.Module) -> None:
        kept = copy.deepcopy(model.state_dict())
        half(model)
        model.load_state_dict(kept)

    assert run(evaluate) == []


def test_a_model_that_is_evaluated_under_autocast(run):
    def evaluate(model: nn.Module) -> None:
        with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
            model(inputs())

    assert run(evaluate) == []


def test_weights_of_another_training_in_16_bits(run):
    saved = network().bfloat16().float().state_dict()
    assert run(lambda model: model.load_state_dict(saved) and None, every=15) == []


def test_a_model_in_16_bits_from_the_start(run):
    assert run(lambda model: model.to(torch.bfloat16) and None, model=network().bfloat16()) == []


def test_a_second_phase_in_16_bits_with_an_optimizer_of_its_own(db, database):
    torch.manual_seed(0)
    model = network()
    with MixedPrecisionNanny(model, db=db, shadow="off", quiet=True):
        for dtype in (torch.float32, torch.bfloat16):
            model.to(dtype)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
            for _ in range(STEPS):
                optimizer.zero_grad()
                model(inputs().to(dtype)).float().square().mean().backward()
                optimizer.step()
    assert [each for each in Finds(database()).all if each["kind"] == "recast"] == []


def test_weights_that_are_set_to_zero(run):
    def resets(model: nn.Module) -> None:
        with torch.no_grad():
            for each in model.parameters():
                each.zero_()

    assert run(resets, every=15) == []


# --- buffers ---


class Tabled(nn.Module):
    """A table that nothing writes again, and running statistics that the next step writes."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.norm = nn.Linear(8, 16), nn.BatchNorm1d(16)
        self.register_buffer("table", 1.0 / 10000 ** (torch.arange(16) / 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.fc(x) + self.table.to(x.dtype))


def weights_restored(model: nn.Module) -> None:
    own = [each.detach().clone() for each in model.parameters()]
    half(model)
    for mine, each in zip(own, model.parameters(), strict=True):
        each.data.copy_(mine)


def all_restored(model: nn.Module) -> None:
    own = copy.deepcopy(model.state_dict())
    half(model)
    model.load_state_dict(own)


def test_buffers_that_stay_rounded_where_the_weights_were_restored(run):
    found = run(weights_restored, model=Tabled())
    assert {each["detail"]["what"] for each in found} == {"buffers"}
    assert found[0]["severity"] == "WARNING" and found[0]["line"] == "model.half()  # casts"
    assert found[0]["dtype"] == "float16"
    assert "table" in found[0]["detail"]["parameters"]


def test_buffers_of_a_part_that_was_cast_before_the_training(db, database):
    model = nn.Sequential(nn.Linear(8, 8), Tabled())
    with MixedPrecisionNanny(model, db=db, shadow="off", quiet=True):
        model[1].to(torch.bfloat16)  # casts
        model[1].float()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            model(inputs()).square().mean().backward()
            optimizer.step()
    (found,) = [each for each in Finds(database()).all if each["kind"] == "recast"]
    assert found["line"].endswith("# casts")
    assert "1.table" in json.loads(found["detail"])["parameters"]


@pytest.mark.parametrize(
    "evaluate",
    [all_restored, lambda model: copy.deepcopy(model).half(), lambda model: model.double().float()],
)
def test_buffers_that_are_what_they_were(run, evaluate):
    assert run(evaluate, model=Tabled()) == []


def test_a_model_with_buffers_that_trains_in_16_bits(run):
    assert run(lambda model: None, model=Tabled().bfloat16()) == []
