"""Errors in what is fed to the model, made on the way there."""

from __future__ import annotations

import torch
from finds import inputs
from torch import nn


def test_time_stamps_that_fp32_has_no_room_for_are_found(train):
    model = nn.Linear(1, 1)
    stamps = torch.arange(64) * 37 + 1_700_000_000

    def loss(_step: int) -> torch.Tensor:
        phase = torch.remainder(stamps.float(), 600.0) / 600.0
        return (model(phase[:, None]) - 1).square().mean() * 1e-3 + 1.0

    first = train(model, loss, steps=6).first()
    assert (first["kind"], first["severity"], first["phase"]) == ("integers", "WARNING", "data")
    assert "input" in first["reach"] and first["precision"] == "proven"
    assert first["line"] == "phase = torch.remainder(stamps.float(), 600.0) / 600.0"


def test_a_batch_in_bf16_is_nothing(train):
    model = nn.Linear(8, 8)
    seen = train(model, lambda step: model(inputs().bfloat16().float()).square().mean(), steps=6)
    assert seen.severe == []


def test_noise_in_a_batch_is_nothing(train):
    """What is left of a difference of equal values is rounding, and no more than noise."""
    model = nn.Linear(8, 8)
    batch = inputs()

    def loss(_step: int) -> torch.Tensor:
        noise = (batch + 1e4) - 1e4 - batch
        return model(batch + noise).square().mean()

    assert train(model, loss, steps=6).severe == []


def test_what_a_teacher_gives_is_no_batch(train):
    """Its difference to what it gave before is mostly rounding, in BF16."""
    model, teacher = nn.Linear(8, 8), nn.Linear(8, 8).bfloat16()

    def loss(_step: int) -> torch.Tensor:
        batch = inputs()
        with torch.no_grad():
            given = teacher(batch.bfloat16())
            changed = (teacher((batch * 1.001).bfloat16()) - given).float()
        return (model(batch) - 1).square().mean() + 1e-3 * (model(batch) * changed).mean()

    found = train(model, loss, steps=6)
    assert all("input" not in each["reach"] for each in found.all)
