"""Optimizers that step without any gradient, and right trainings in which some do."""

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


@pytest.fixture
def run(db: str, database: Callable[[], Database]) -> Callable[..., list[dict[str, Any]]]:
    def train(model: nn.Module, one_step: Callable[[int], None]) -> list[dict[str, Any]]:
        with MixedPrecisionNanny(model, db=db, quiet=True):
            for step in range(20):
                one_step(step)
        failed = database().rows("SELECT * FROM event WHERE type = 'hook_failed'")
        assert [each["detail"] for each in failed] == []
        found = [each for each in Finds(database()).all if each["kind"] == "empty_step"]
        for each in found:
            each["detail"] = json.loads(each["detail"])
        return found

    torch.manual_seed(0)
    return train


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.01)


def test_a_model_that_is_built_anew_and_the_old_optimizer(run):
    model = nn.Linear(8, 8)
    optimizer = sgd(model)
    trained = [model]

    def step(number: int) -> None:
        if number == 10:
            trained[0] = copy.deepcopy(model)  # as on resuming
        optimizer.zero_grad()
        trained[0](inputs()).square().mean().backward()
        optimizer.step()

    (found,) = run(model, step)
    assert (found["severity"], found["precision"]) == ("ERROR", "excluded")
    assert found["line"] == "optimizer.step()"
    assert (found["detail"]["until"], found["detail"]["since"]) == (9, 10)


def test_optimizers_that_take_turns_are_right(run):
    """Each steps all the time, and has gradients in its phase only."""
    model = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)])
    optimizers = [sgd(each) for each in model]

    def step(number: int) -> None:
        for optimizer in optimizers:
            optimizer.zero_grad()
        model[number // 10](inputs()).square().mean().backward()
        for optimizer in optimizers:
            optimizer.step()

    assert run(model, step) == []


def test_steps_without_a_backward_pass_are_nothing(run):
    """A schedule that is warmed up by itself."""
    model = nn.Linear(8, 8)
    optimizer = sgd(model)

    def step(number: int) -> None:
        optimizer.zero_grad()
        if number < 6 or number > 14:
            model(inputs()).square().mean().backward()
        optimizer.step()

    assert run(model, step) == []


def test_a_frozen_model_is_nothing(run):
    model = nn.Linear(8, 8)
    optimizer = sgd(model)
    head = nn.Linear(8, 1)

    def step(number: int) -> None:
        model.requires_grad_(number < 5)
        optimizer.zero_grad()
        head(model(inputs())).square().mean().backward()
        optimizer.step()

    assert run(model, step) == []
