"""Weights that are loaded and that the next optimizer step sets back; and loads that last."""

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


class Masters(torch.optim.AdamW):
    """Keeps FP32 copies of BF16 weights, which it steps and writes back."""

    def __init__(self, weights: list[nn.Parameter], lr: float) -> None:
        self.weights = weights
        self.masters = [each.detach().float().requires_grad_() for each in weights]
        super().__init__(weights, lr=lr)
        self.inner = torch.optim.AdamW(self.masters, lr=lr)

    def renew(self) -> None:
        for master, weight in zip(self.masters, self.weights, strict=True):
            master.data.copy_(weight)

    def step(self, closure: Any = None) -> None:
        for master, weight in zip(self.masters, self.weights, strict=True):
            master.grad = weight.grad.float()
        self.inner.step()
        with torch.no_grad():
            for master, weight in zip(self.masters, self.weights, strict=True):
                weight.copy_(master)


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)).bfloat16()


@pytest.fixture
def run(db: str, database: Callable[[], Database]) -> Callable[..., list[dict[str, Any]]]:
    def train(
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        steps: int = 40,
        between: Callable[[int], None] = lambda _step: None,
    ) -> list[dict[str, Any]]:
        with MixedPrecisionNanny(model, db=db, shadow="off", quiet=True):
            for step in range(steps):
                between(step)
                optimizer.zero_grad()
                model(inputs().bfloat16()).float().square().mean().backward()
                optimizer.step()  # steps
        assert database().rows("SELECT * FROM event WHERE type = 'hook_failed'") == []
        found = [each for each in Finds(database()).all if each["kind"] == "load_undone"]
        for each in found:
            each["detail"] = json.loads(each["detail"])
        return found

    torch.manual_seed(0)
    return train


@pytest.mark.parametrize("by_hand", [False, True])
def test_copies_that_are_written_over_what_was_loaded_in_the_middle(run, by_hand):
    model, other = network(), network()
    saved = other.state_dict()

    def between(step: int) -> None:
        if step == 23 and by_hand:
            with torch.no_grad():
                for name, each in model.named_parameters():
                    each.copy_(saved[name])
        elif step == 23:
            model.load_state_dict(saved)  # loads

    (found,) = run(model, Masters(list(model.parameters()), 1e-3), between=between)
    assert found["severity"] == ("WARNING" if by_hand else "ERROR")
    assert found["precision"] == "excluded" and found["line"].endswith("# steps")
    assert found["step"] == 23 and found["detail"]["times"] > 10
    assert set(found["detail"]["parameters"]) == {"0.weight", "0.bias", "2.weight", "2.bias"}
    assert ("at" in found["detail"]) is not by_hand


def load(model: nn.Module, saved: dict[str, torch.Tensor]) -> None:
    model.load_state_dict(saved)  # loads


def test_copies_that_were_made_before_the_weights_were_loaded(run, db):
    model, other = network(), network()
    with MixedPrecisionNanny(other, db=db, shadow="off", quiet=True):  # as mpnanny run: hears loads
        optimizer = Masters(list(model.parameters()), 1e-3)
        load(model, other.state_dict())
    (found,) = run(model, optimizer, steps=14)
    assert found["severity"] == "ERROR" and found["step"] == 0
    file, _, line = found["detail"]["at"].rpartition(":")
    with open(file, encoding="utf-8") as lines:
        assert lines.read().splitlines()[int(line) - 1].endswith("# loads")


# --- what is right ---


def test_copies_that_are_loaded_as_well(run):
    model, other = network(), network()
    optimizer = Masters(list(model.parameters()), 1e-3)

    def between(step: int) -> None:
        if step == 23:
            model.load_state_dict(other.state_dict())
            optimizer.renew()

    assert run(model, optimizer, between=between) == []


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_weights_that_are_loaded_into_an_optimizer_without_copies(run, kind):
    model, other = network().float(), network().float()
    model.to(torch.bfloat16)
    saved = [copy.deepcopy(model.state_dict()), other.state_dict()]

    def between(step: int) -> None:  # back and forth, each for a while
        if step % 12 == 5:
            model.load_state_dict(saved[step // 12 % 2])

    assert run(model, kind(model.parameters(), lr=1e-3), between=between, steps=60) == []


def test_weights_that_are_averages_while_the_model_is_evaluated(run):
    model, average = network(), network()

    def between(step: int) -> None:
        if step % 5 == 4:
            own = copy.deepcopy(model.state_dict())
            model.load_state_dict(average.state_dict())
            with torch.no_grad():
                model.eval()(inputs().bfloat16())
            model.train()
            model.load_state_dict(own)

    assert run(model, Masters(list(model.parameters()), 1e-3), between=between) == []


def test_steps_that_grow_from_one_side_to_the_other(run):
    """A learning rate that is too large: what jumps and comes back was not loaded."""
    model = nn.Sequential(nn.Linear(8, 1)).bfloat16()
    assert run(model, torch.optim.SGD(model.parameters(), lr=1.5), steps=40) == []


def test_not_a_bit_of_the_training_changes(run):
    saved = network().state_dict()
    ends = []
    for watched in (True, False):
        torch.manual_seed(3)
        model = network()
        optimizer = Masters(list(model.parameters()), 1e-3)

        def between(step: int, model: nn.Module = model) -> None:
            if step == 23:
                model.load_state_dict(saved)

        if watched:
            assert len(run(model, optimizer, between=between)) == 1
        else:
            for step in range(40):
                between(step)
                optimizer.zero_grad()
                model(inputs().bfloat16()).float().square().mean().backward()
                optimizer.step()
        weights = [*model.parameters(), *optimizer.masters]
        ends.append([(each.detach().clone(), each._version) for each in weights])
    for (mine, version), (theirs, other) in zip(*ends, strict=True):
        assert torch.equal(mine, theirs) and version == other
