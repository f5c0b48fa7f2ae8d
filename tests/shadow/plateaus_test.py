"""A schedule that decides by a metric in 16 bits that nothing gets better."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn


def trained(train, dtype: torch.dtype, rate: float, steps: int = 24, patience: int = 2):
    model = nn.Linear(8, 1)
    batch = torch.randn(64, 8)
    wanted = batch @ torch.randn(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=patience)

    def loss_of(_step: int) -> torch.Tensor:
        loss = (model(batch) - wanted).square().mean()
        metric = loss.detach().to(dtype)  # metric
        schedule.step(metric.item())
        return loss

    found = train(model, loss_of, steps=steps, optimizer=optimizer)
    return found, optimizer.param_groups[0]["lr"]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_improvements_below_the_metrics_resolution(train, dtype):
    rate = 5e-4 if dtype is torch.bfloat16 else 4e-5
    found, last = trained(train, dtype, rate, steps=30)
    assert last < rate
    (first,) = [each for each in found.severe if each["kind"] == "stands_still"]
    assert (first["severity"], first["precision"]) == ("WARNING", "proven")
    assert first["line"] == "metric = loss.detach().to(dtype)  # metric"
    assert json.loads(first["detail"])["count"] >= 2 and first["reach"] == ["decision"]


def test_the_same_in_fp32_decides_as_fp64(train):
    found, last = trained(train, torch.float32, 5e-4)
    assert last == 5e-4 and found.severe == []


def test_a_metric_that_gets_better_by_more_than_a_step(train):
    found, last = trained(train, torch.bfloat16, 0.02, steps=12)
    assert last == 0.02 and found.severe == []


def test_a_training_that_stands_still_in_fp64_too(train):
    found, last = trained(train, torch.bfloat16, 1e-7)
    assert last < 1e-7 and "stands_still" not in found.kinds


def test_a_schedule_that_waits_long_enough(train):
    """Some steps look alike, and the rate does not fall for it."""
    found, last = trained(train, torch.bfloat16, 5e-4, patience=100)
    assert last == 5e-4 and found.severe == []
