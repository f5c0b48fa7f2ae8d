"""A new optimizer in the same process: a phase, or what a load has brought."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from conftest import Database
from mpnanny import MixedPrecisionNanny
from torch import nn


@pytest.fixture
def phases(db: str, database: Callable[[], Database]) -> Callable[..., list[dict[str, Any]]]:
    def train(
        between: Callable[[nn.Module, torch.optim.Optimizer], torch.optim.Optimizer],
    ) -> list[dict[str, Any]]:
        torch.manual_seed(0)
        model = nn.Linear(4, 4)
        optimizer: torch.optim.Optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        with MixedPrecisionNanny(model, db=db, shadow="off", quiet=True):
            for step in range(8):
                if step == 4:
                    optimizer = between(model, optimizer)
                optimizer.zero_grad()
                batch = torch.randn(8, 4).to(next(model.parameters()).dtype)
                model(batch).float().square().mean().backward()
                optimizer.step()
        rows = database().rows("SELECT step, detail FROM event WHERE type = 'phase'")
        return [{"step": each["step"], **json.loads(each["detail"])} for each in rows]

    return train


def test_a_phase_in_bf16_with_an_optimizer_of_its_own(phases):
    def between(model: nn.Module, _: torch.optim.Optimizer) -> torch.optim.Optimizer:
        return torch.optim.AdamW(model.bfloat16().parameters(), lr=1e-4)

    (found,) = phases(between)
    wanted = {"step": 4, "index": 2, "loads": 0, "dtype": "bfloat16", "dtype_before": "float32"}
    assert found == wanted


def test_what_was_loaded_before_it_is_counted(phases):
    def between(model: nn.Module, before: torch.optim.Optimizer) -> torch.optim.Optimizer:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        model.load_state_dict(model.state_dict())
        optimizer.load_state_dict(before.state_dict())
        return optimizer

    (found,) = phases(between)
    assert found["loads"] == 2


def test_one_optimizer_is_no_phase(phases):
    assert phases(lambda _, optimizer: optimizer) == []


def test_optimizers_that_take_turns_are_none(db, database):
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    model = nn.Sequential(first, second)
    optimizers = [torch.optim.SGD(each.parameters(), lr=1e-3) for each in (first, second)]
    with MixedPrecisionNanny(model, db=db, shadow="off", quiet=True):
        for _ in range(4):
            for optimizer in optimizers:
                model.zero_grad()
                model(torch.randn(8, 4)).square().mean().backward()
                optimizer.step()
    assert database().rows("SELECT * FROM event WHERE type = 'phase'") == []
