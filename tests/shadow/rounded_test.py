"""Weights that are rounded between the optimizer's steps, and right trainings that change them
there.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from finds import Finds, inputs
from mpnanny import MixedPrecisionNanny
from torch import nn

STEPS = 40


@pytest.fixture
def run(db, database) -> Callable[..., list[dict[str, Any]]]:
    def train(model: nn.Module, between: Callable[[], None]) -> list[dict[str, Any]]:
        """`between`: called after each step. Gives what was found of rounding there."""
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        target = nn.Linear(8, 8)
        with MixedPrecisionNanny(model, db=db, shadow="every=8", quiet=True):
            for _ in range(STEPS):
                batch = inputs(64)
                optimizer.zero_grad()
                (model(batch) - target(batch).detach()).square().mean().backward()
                optimizer.step()
                with torch.no_grad():
                    between()
        failed = database().rows("SELECT * FROM event WHERE type = 'hook_failed'")
        assert [each["detail"] for each in failed] == []
        found = Finds(database()).all
        return [each for each in found if "rounded_between" in (each["detail"] or "")]

    torch.manual_seed(0)
    return train


@pytest.mark.parametrize(
    "kind", [torch.float8_e5m2, torch.float8_e4m3fn, torch.bfloat16], ids=["e5m2", "e4m3", "bf16"]
)
def test_a_narrow_store(run, kind):
    model = nn.Linear(8, 8)

    def between() -> None:
        for each in model.parameters():
            store = each.to(kind)
            each.copy_(store.float())

    (found,) = run(model, between)
    assert (found["kind"], found["severity"]) == ("lost_change", "WARNING")
    assert (found["line"], found["precision"]) == ("store = each.to(kind)", "proven")
    assert found["dtype"] == f"float32 → {str(kind)[6:]}" and found["share"] > 0.5
    assert json.loads(found["detail"])["since"] <= 2


def test_a_store_that_is_wide_enough(run):
    model = nn.Linear(8, 8)

    def between() -> None:
        for each in model.parameters():
            each.copy_(each.double().float())

    assert run(model, between) == []


def test_rows_that_are_put_back(run):
    model = nn.Linear(8, 8)
    kept = model.weight.detach().clone()
    assert run(model, lambda: model.weight[:6].copy_(kept[:6])) == []


def test_weights_that_are_pruned(run):
    model = nn.Linear(8, 8)
    mask = (torch.rand(8, 8) < 0.2).float()
    with torch.no_grad():
        model.weight.mul_(mask)
    assert run(model, lambda: model.weight.mul_(mask)) == []


def test_weights_that_are_clamped(run):
    model = nn.Linear(8, 8)
    assert run(model, lambda: model.weight.clamp_(-0.01, 0.01)) == []


def test_weights_of_unit_length(run):
    model = nn.Linear(8, 8)
    assert run(model, lambda: model.weight.div_(model.weight.norm(dim=1, keepdim=True))) == []
