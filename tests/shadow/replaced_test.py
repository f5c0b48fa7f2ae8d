"""Parameters that take the place of those that an optimizer holds, and what looks like it."""

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

STEPS = 8


@pytest.fixture
def train(db: str, database: Callable[[], Database]) -> Callable[..., list[dict[str, Any]]]:
    """What was found of parameters that nothing updates. `change` gets the model in step `at`."""

    def run(
        change: Callable[[nn.Module, torch.optim.Optimizer], None],
        at: int = 3,
        after: Callable[[nn.Module, torch.optim.Optimizer], None] = lambda *_: None,
    ) -> list[dict[str, Any]]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
        with MixedPrecisionNanny(model, db=db, shadow="off", quiet=True):
            for step in range(STEPS):
                if step == at:
                    change(model, optimizer)
                optimizer.zero_grad()
                model(inputs()).square().mean().backward()
                optimizer.step()
                after(model, optimizer)
        assert database().rows("SELECT * FROM event WHERE type = 'hook_failed'") == []
        found = [each for each in Finds(database()).all if each["kind"] != "amplified"]
        for each in found:
            each["detail"] = json.loads(each["detail"])
        return found

    return run


def one_weight(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    model[0].weight = nn.Parameter(model[0].weight.detach().clone())  # changes


def one_module(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    model[0] = copy.deepcopy(model[0])  # changes


def assigned(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    state = {name: each.clone() for name, each in model.state_dict().items()}
    model.load_state_dict(state, assign=True)  # changes


@pytest.mark.parametrize("at", [0, 3])
@pytest.mark.parametrize(
    ("change", "names"),
    [
        (one_weight, ["0.weight"]),
        (one_module, ["0.weight", "0.bias"]),
        (assigned, ["0.weight", "0.bias", "2.weight", "2.bias"]),
    ],
)
def test_what_was_put_in_is_named_with_its_line(train, change, names, at):
    (found,) = train(change, at)
    assert found["kind"] == "not_updated" and found["line"].endswith("# changes")
    assert found["detail"]["parameters"] == names and found["detail"]["since"] == at
    assert found["severity"] == ("ERROR" if change is assigned else "WARNING")


def given_to_the_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    one_weight(model, optimizer)
    optimizer.add_param_group({"params": [model[0].weight]})


def frozen(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    one_module(model, optimizer)
    model[0].requires_grad_(False)


def in_place(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    model.load_state_dict(copy.deepcopy(model.state_dict()))
    model.double().float()


@pytest.mark.parametrize("change", [given_to_the_optimizer, frozen, in_place])
def test_changes_that_lose_nothing(train, change):
    assert train(change) == []


def test_copies_that_an_optimizer_updates_and_the_program_writes_back(train):
    def masters(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        one_weight(model, optimizer)

    def write_back(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        held = optimizer.param_groups[0]["params"][0]
        if held is not model[0].weight:
            held.grad = model[0].weight.grad
            model[0].weight.data.add_(held.grad, alpha=-1e-2)
            model[0].weight.grad = None

    assert [each for each in train(masters, after=write_back) if each["severity"] != "INFO"] == []
