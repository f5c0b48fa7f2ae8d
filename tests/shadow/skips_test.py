"""Learning rates that go on although the loss scaler skips steps."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from conftest import Database
from finds import Finds
from mpnanny import MixedPrecisionNanny
from torch import nn


@pytest.fixture
def train(db: str, database: Callable[[], Database]) -> Callable[..., list[dict[str, Any]]]:
    """Trains `steps` steps, of which those where `fails(step)` have an infinite gradient."""

    def run(
        steps: int, fails: Callable[[int], bool], waits: bool = False, every: int = 1
    ) -> list[dict[str, Any]]:
        torch.manual_seed(0)
        model = nn.Linear(8, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        with MixedPrecisionNanny(model, db=db, shadow="off", quiet=True):
            for step in range(steps):
                optimizer.zero_grad()
                scaler.scale(model(torch.randn(4, 8)).square().mean()).backward()
                if fails(step):
                    model.weight.grad.fill_(torch.inf)
                scaler.step(optimizer)
                before = scaler.get_scale()
                scaler.update()
                skipped = scaler.get_scale() < before
                if not (waits and skipped) and step % every == 0:
                    schedule.step()
        assert database().rows("SELECT * FROM event WHERE type = 'hook_failed'") == []
        found = [each for each in Finds(database()).all if each["kind"] == "moved_on_skip"]
        for each in found:
            each["detail"] = json.loads(each["detail"])
        return found

    return run


def test_a_schedule_that_goes_on_in_a_few_skipped_steps_is_a_note(train):
    (found,) = train(40, lambda step: step in (0, 1, 30))
    assert found["severity"] == "INFO" and found["precision"] == "excluded"
    assert found["detail"]["what"] == "the learning rate"
    assert found["detail"]["changes_with_weights"] >= 20


def test_many_such_steps_are_a_warning(train):
    (found,) = train(60, lambda step: step % 4 == 3)
    assert found["severity"] == "WARNING" and found["detail"]["steps"] >= 10


def test_a_schedule_that_waits_with_the_weights_is_nothing(train):
    assert train(60, lambda step: step % 4 == 3, waits=True) == []


def test_a_schedule_that_moves_every_fourth_step_says_nothing_of_skipped_ones(train):
    assert train(100, lambda step: step % 8 == 0, every=4) == []
