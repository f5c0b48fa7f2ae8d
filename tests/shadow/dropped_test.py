"""Gradients that are zeroed before an optimizer has used them, and right trainings that look so."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from conftest import Database
from finds import Finds, inputs, text_of
from mpnanny import MixedPrecisionNanny
from torch import nn


@pytest.fixture
def run(db: str, database: Callable[[], Database]) -> Callable[..., list[dict[str, Any]]]:
    def train(model: nn.Module, one_step: Callable[[int], None]) -> list[dict[str, Any]]:
        with MixedPrecisionNanny(model, db=db, quiet=True):
            for step in range(8):
                one_step(step)
        failed = database().rows("SELECT * FROM event WHERE type = 'hook_failed'")
        assert [each["detail"] for each in failed] == []
        found = [each for each in Finds(database()).all if each["kind"] == "dropped_gradient"]
        for each in found:
            each["detail"] = json.loads(each["detail"])
        return found

    torch.manual_seed(0)
    return train


def loss(model: nn.Module) -> torch.Tensor:
    return model(inputs()).square().mean() / 4


class Accumulating:
    """Four micro-batches for one update. `zero`: called before each, with its number."""

    def __init__(self, zero: Callable[[torch.optim.Optimizer, int], None], scale: bool = False):
        self.model = nn.Linear(8, 8)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=256.0, enabled=scale)
        self.zero = zero

    def __call__(self, _step: int) -> None:
        for number in range(4):
            self.zero(self.optimizer, number)
            self.scaler.scale(loss(self.model)).backward()
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), 0.1)
        self.scaler.step(self.optimizer)
        self.scaler.update()


def before_each(optimizer: torch.optim.Optimizer, _number: int) -> None:
    optimizer.zero_grad()


def before_each_in_place(optimizer: torch.optim.Optimizer, _number: int) -> None:
    optimizer.zero_grad(set_to_none=False)


def by_hand(optimizer: torch.optim.Optimizer, _number: int) -> None:
    for parameter in optimizer.param_groups[0]["params"]:
        parameter.grad = None


def before_the_first(optimizer: torch.optim.Optimizer, number: int) -> None:
    if number == 0:
        optimizer.zero_grad()


@pytest.mark.parametrize("zero", [before_each, before_each_in_place])
@pytest.mark.parametrize("scale", [False, True])
def test_all_but_the_last_pass_are_dropped(run, zero, scale):
    training = Accumulating(zero, scale)
    (found,) = run(training.model, training)
    assert found["severity"] == "WARNING" and found["precision"] == "excluded"
    assert found["line"].startswith("optimizer.zero_grad(")
    assert text_of(found["detail"]["at"]) == "self.scaler.scale(loss(self.model)).backward()"
    assert text_of(found["detail"]["called_from"][0]) == "self.zero(self.optimizer, number)"
    assert (found["detail"]["passes"], found["detail"]["count"]) == (4, 3)
    assert found["detail"]["since"] == 1 and found["step"] <= 4


def test_what_sets_them_to_zero_by_hand_has_no_line(run):
    training = Accumulating(by_hand)
    (found,) = run(training.model, training)
    assert found["line"] == "self.scaler.scale(loss(self.model)).backward()"
    assert "at" not in found["detail"]


@pytest.mark.parametrize("scale", [False, True])
def test_passes_that_add_up_are_right(run, scale):
    training = Accumulating(before_the_first, scale)
    assert run(training.model, training) == []


def test_a_closure_that_zeroes_in_each_pass(run):
    """As Lightning's: all but the last micro-batch call it, the last one the optimizer's step."""
    model = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        value = loss(model)
        value.backward()
        return value

    def step(_step: int) -> None:
        for _ in range(3):
            closure()
        optimizer.step(closure)

    (found,) = run(model, step)
    assert (found["detail"]["passes"], found["detail"]["count"]) == (4, 3)


def test_an_optimizer_that_tries_several_points_is_right(run):
    model = nn.Linear(8, 8)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)
    batch = inputs()

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        value = model(batch).square().mean()
        value.backward()
        return value

    assert run(model, lambda step: optimizer.step(closure)) == []


def test_each_samples_clipped_gradient_is_taken_over(run):
    model = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(_step: int) -> None:
        sums = [torch.zeros_like(each) for each in model.parameters()]
        for _ in range(4):
            optimizer.zero_grad()
            loss(model).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            for total, each in zip(sums, model.parameters(), strict=True):
                total += each.grad
        for total, each in zip(sums, model.parameters(), strict=True):
            each.grad = total
        optimizer.step()

    assert run(model, step) == []


def test_an_attack_before_the_training_pass_is_right(run):
    model = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(_step: int) -> None:
        batch = inputs().requires_grad_()
        for _ in range(3):
            model(batch).square().mean().backward()
            batch = (batch + 0.01 * batch.grad.sign()).detach().requires_grad_()
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    assert run(model, step) == []


def test_a_batch_that_the_program_leaves_out_is_right(run):
    """By its own test of the loss, now and then."""
    model = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(number: int) -> None:
        for attempt in range(2):
            optimizer.zero_grad()
            loss(model).backward()
            if number % 2 or attempt:
                break
        optimizer.step()

    assert run(model, step) == []


def test_two_players_whose_gradients_go_through_each_other(run):
    maker, judge = nn.Linear(8, 8), nn.Linear(8, 1)
    makes = torch.optim.SGD(maker.parameters(), lr=0.01)
    judges = torch.optim.SGD(judge.parameters(), lr=0.01)

    def step(_step: int) -> None:
        fake = maker(inputs())
        for player, other, batch in ((judges, makes, fake.detach()), (makes, judges, fake)):
            player.zero_grad()
            (judge(batch).mean() if player is makes else -judge(batch).mean()).backward()
            player.step()
            other.zero_grad()

    assert run(judge, step) == []
