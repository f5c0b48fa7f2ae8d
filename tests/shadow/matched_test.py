"""Optimizers that were given their parameters in another order than the one that was saved."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from conftest import Database
from finds import Finds
from mpnanny import MixedPrecisionNanny
from torch import nn

STEPS = 40


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(16, 32), nn.Linear(32, 32)
        self.c, self.d = nn.Linear(32, 32), nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.d(torch.tanh(self.c(torch.tanh(self.b(torch.tanh(self.a(x)))))))


def adam(model: Net, order: str) -> torch.optim.Optimizer:
    parameters = [each for name in order for each in getattr(model, name).parameters()]
    return torch.optim.Adam(parameters, lr=1e-3)


def momentum(model: Net, order: str) -> torch.optim.Optimizer:
    parameters = [each for name in order for each in getattr(model, name).parameters()]
    return torch.optim.SGD(parameters, lr=1e-2, momentum=0.95)


def train(model: Net, optimizer: torch.optim.Optimizer, first: int) -> None:
    for step in range(first, first + STEPS):
        draw = torch.Generator().manual_seed(step)
        batch = torch.randn(32, 16, generator=draw)
        optimizer.zero_grad()
        (model(batch) - batch[:, :4].sin()).square().mean().backward()
        optimizer.step()


@pytest.fixture
def resume(db: str, database: Callable[[], Database]) -> Callable[..., list[dict[str, Any]]]:
    def run(make: Any, order: str, other: bool = False) -> list[dict[str, Any]]:
        torch.manual_seed(0)
        model, second = Net(), Net()
        optimizer, resumed = make(model, "abcd"), make(second, order)
        train(model, optimizer, 0)
        saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
        with MixedPrecisionNanny(second, db=db, shadow="off", quiet=True):
            if not other:
                second.load_state_dict(saved[0])
            resumed.load_state_dict(saved[1])  # loads
            train(second, resumed, STEPS)
        assert database().rows("SELECT * FROM event WHERE type = 'hook_failed'") == []
        found = [each for each in Finds(database()).all if each["kind"] == "state_of_another"]
        for each in found:
            each["detail"] = json.loads(each["detail"])
        return found

    return run


def test_moments_of_other_parameters_are_told_by_their_gradients(resume):
    (found,) = resume(adam, "acbd")
    assert found["severity"] == "WARNING" and found["line"].endswith("# loads")
    assert {"b.weight", "c.weight"} <= set(found["detail"]["parameters"])
    assert found["detail"]["what"] in ("b.weight", "c.weight")


@pytest.mark.parametrize("make", [adam, momentum])
def test_the_order_that_was_saved(resume, make):
    assert resume(make, "abcd") == []


def test_moments_of_a_model_that_begins_anew(resume):
    assert resume(adam, "abcd", other=True) == []
