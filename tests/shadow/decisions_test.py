"""Branches and choices that fall the other way in FP64, because of an error made before."""

from __future__ import annotations

import torch
from torch import nn

SMALL = 2e-5  # its square is 0 in FP16


def test_a_branch_that_an_underflow_decides_is_found(train):
    """A trust ratio whose norm is computed in FP16 stays at its fallback of 1."""
    model = nn.Linear(8, 8)
    rates = []

    @torch.no_grad()
    def update() -> None:
        half = model.weight.grad.half()
        norm = (half * half).sum().sqrt()
        rate = 1.0
        if norm > 0:
            rate = 0.1 / float(norm)
        rates.append(rate)
        model.weight -= 0.01 * rate * model.weight.grad

    loss = _loss(model)
    first = train(model, loss, steps=6, update=update).first()
    assert set(rates) == {1.0}
    assert (first["kind"], first["severity"]) == ("flushed", "WARNING")
    assert first["line"] == "norm = (half * half).sum().sqrt()"
    assert "decision" in first["reach"]


def test_a_choice_that_an_underflow_decides_is_found(train):
    model = nn.Linear(8, 8)

    @torch.no_grad()
    def update() -> None:
        half = model.weight.grad.half()
        norm = (half * half).sum().sqrt()
        rate = torch.where(norm > 0, 0.1, 1.0)
        model.weight -= 0.01 * rate * model.weight.grad

    first = train(model, _loss(model), steps=6, update=update).first()
    assert (first["kind"], first["severity"]) == ("flushed", "WARNING")
    assert "decision" in first["reach"]


def test_a_branch_that_falls_as_in_fp64_is_nothing(train):
    model = nn.Linear(8, 8)

    @torch.no_grad()
    def update() -> None:
        half = model.weight.grad.half()
        norm = (half * half).sum().sqrt()
        rate = 0.5 if norm > 1 else 1.0  # 0 here and 1e-4 in FP64
        model.weight -= 0.01 * rate * model.weight.grad

    assert train(model, _loss(model), steps=6, update=update).severe == []


def test_close_values_that_rounding_orders_are_nothing(train):
    """The best loss so far, in BF16: which of two equal losses is less means nothing."""
    model = nn.Linear(8, 8)
    best = [float("inf")]
    batch = torch.randn(32, 8)

    def loss(_step: int) -> torch.Tensor:
        value = model(batch).square().mean().bfloat16()
        with torch.no_grad():
            if value < best[0]:
                best[0] = value
        return value.float()

    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    assert train(model, loss, steps=10, optimizer=optimizer).severe == []


def _loss(model: nn.Linear):
    batch = torch.randn(16, 8)
    return lambda step: SMALL * model(batch).mean()
