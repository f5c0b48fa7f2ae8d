"""An optimizer that is given a closure, as Lightning gives one, runs the model inside of its step.
What shadow steps look at then is what they look at in a plain loop.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import torch
from finds import Finds, inputs
from mpnanny import MixedPrecisionNanny
from torch import nn

Step = Callable[[torch.optim.Optimizer, Callable[[], torch.Tensor]], None]


def plain(optimizer: torch.optim.Optimizer, closure: Callable[[], torch.Tensor]) -> None:
    closure()
    optimizer.step()


def none(optimizer: torch.optim.Optimizer, closure: Callable[[], torch.Tensor]) -> None:
    closure()
    optimizer.step(None)  # as Accelerate passes on what it was given


def positional(optimizer: torch.optim.Optimizer, closure: Callable[[], torch.Tensor]) -> None:
    optimizer.step(closure)


def named(optimizer: torch.optim.Optimizer, closure: Callable[[], torch.Tensor]) -> None:
    optimizer.step(closure=closure)


WAYS: list[Step] = [none, positional, named]


def trained(db, database, step: Step, make, dtype: torch.dtype = torch.float32) -> Finds:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1)).to(dtype)
    optimizer = make(model)
    with MixedPrecisionNanny(model, db=db, shadow="every=1", quiet=True):
        for _ in range(5):

            def closure() -> torch.Tensor:
                optimizer.zero_grad()
                loss = model(inputs().to(dtype)).float().square().mean()
                loss.backward()
                return loss

            step(optimizer, closure)
    assert database().rows("SELECT * FROM event WHERE type = 'hook_failed'") == []
    return Finds(database())


def covered(database) -> list[dict[str, list[int]]]:
    rows = database().rows("SELECT detail FROM shadow_step")
    figures = [json.loads(row["detail"])["covered"] for row in rows]
    return [{name: each[name] for name in ("gradients", "updates")} for each in figures]


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-6)


@pytest.mark.parametrize("way", WAYS)
def test_gradients_and_updates_are_compared(db, database, way):
    trained(db, database, way, adamw)
    assert covered(database) == [{"gradients": [4, 4], "updates": [4, 4]}] * 5


@pytest.mark.parametrize("way", WAYS)
def test_lost_updates_are_found_as_in_a_plain_loop(db, database, tmp_path, way):
    def lost(found: Finds) -> list[tuple[str, str, str]]:
        return [
            (each["phase"], each["operator"], each["severity"])
            for each in found.all
            if each["kind"] == "lost_change"
        ]

    found = lost(trained(db, database, way, adamw, torch.bfloat16))
    assert found and {phase for phase, *_ in found} == {"optimizer"}


@pytest.mark.parametrize("way", WAYS)
def test_a_parameter_that_no_optimizer_holds(db, database, way):
    def without_a_bias(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(list(model.parameters())[:3], lr=1e-3)

    found = trained(db, database, way, without_a_bias)
    assert [each["kind"] for each in found.all] == ["not_updated"]


def test_the_model_runs_many_times_in_one_step(db, database):
    """LBFGS: the weights change between the calls, and only the update is the optimizer's."""

    def lbfgs(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.LBFGS(model.parameters(), lr=1e-2, max_iter=4)

    found = trained(db, database, positional, lbfgs)
    assert [each for each in found.all if each["severity"] != "INFO"] == []


def test_a_closure_keeps_what_it_returns_raises_and_has(db):
    torch.manual_seed(0)
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def closure() -> torch.Tensor:
        loss = model(inputs()).square().mean()
        loss.backward()
        return loss

    def broken() -> torch.Tensor:
        raise ValueError("no batch is left")

    with MixedPrecisionNanny(model, db=db, shadow="every=1", quiet=True):
        value = optimizer.step(closure)
        assert isinstance(value, torch.Tensor) and value.requires_grad
        with pytest.raises(ValueError, match="no batch is left"):
            optimizer.step(broken)
        optimizer.step(closure)
