"""Weights that something other than the optimizer moves, and right trainings that do so."""

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

STEPS = 60


@pytest.fixture
def run(db: str, database: Callable[[], Database]) -> Callable[..., list[dict[str, Any]]]:
    def train(
        model: nn.Module, after: Callable[[int], None], rate: float = 0.02
    ) -> list[dict[str, Any]]:
        """`after`: called after each step, with its number."""
        optimizer = torch.optim.SGD(model.parameters(), lr=rate)
        target = nn.Linear(8, 8)
        with MixedPrecisionNanny(model, db=db, quiet=True):
            for step in range(STEPS):
                batch = inputs(64)
                optimizer.zero_grad()
                (model(batch) - target(batch).detach()).square().mean().backward()
                optimizer.step()
                after(step)
        failed = database().rows("SELECT * FROM event WHERE type = 'hook_failed'")
        assert [each["detail"] for each in failed] == []
        found = [each for each in Finds(database()).all if each["kind"] == "moved_weights"]
        for each in found:
            each["detail"] = json.loads(each["detail"])
        return found

    torch.manual_seed(0)
    return train


class Average:
    """Of a model's weights. `kept`: what is to restore them after an evaluation."""

    def __init__(self, model: nn.Module, decay: float, clone: bool) -> None:
        self.model, self.decay, self.clone = model, decay, clone
        self.values = [each.detach().clone() for each in model.parameters()]

    @torch.no_grad()
    def __call__(self, step: int) -> None:
        for value, each in zip(self.values, self.model.parameters(), strict=True):
            value.lerp_(each, 1 - self.decay)
        if step % 10 == 9:  # an evaluation with the average
            kept = [each.detach() for each in self.model.parameters()]
            kept = [each.clone() for each in kept] if self.clone else kept
            for value, each in zip(self.values, self.model.parameters(), strict=True):
                each.data.copy_(value)
            self.model(inputs())
            for value, each in zip(kept, self.model.parameters(), strict=True):
                each.data.copy_(value)


def test_an_average_that_stays_in_the_model(run):
    model = nn.Linear(8, 8)
    (found,) = run(model, Average(model, 0.98, clone=False), rate=0.2)
    assert (found["severity"], found["precision"]) == ("WARNING", "excluded")
    detail = found["detail"]
    assert detail["since"] == 10 and 3 <= detail["count"] <= 5
    assert detail["loss_after"] > 1.2 * detail["loss_before"]


def test_an_average_that_is_taken_out_again(run):
    model = nn.Linear(8, 8)
    assert run(model, Average(model, 0.98, clone=True), rate=0.2) == []


def test_a_projection_after_each_step(run):
    model = nn.Linear(8, 8)

    @torch.no_grad()
    def clip(_step: int) -> None:
        for each in model.parameters():
            each.clamp_(-0.05, 0.05)

    assert run(model, clip, rate=0.2) == []


def test_slow_weights_that_make_the_loss_better(run):
    """Lookahead: every fifth step goes halfway back, which the loss does not suffer from."""
    model = nn.Linear(8, 8)
    slow = copy.deepcopy(model)

    @torch.no_grad()
    def look_ahead(step: int) -> None:
        if step % 5 == 4:
            for one, other in zip(slow.parameters(), model.parameters(), strict=True):
                one.lerp_(other, 0.9)
                other.copy_(one)

    assert run(model, look_ahead) == []
