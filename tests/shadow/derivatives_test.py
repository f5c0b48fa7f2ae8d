"""Gradients that are not finite while the forward pass is: the line and the input at which a
derivative is infinite, and the line whose 0 it meets; also where a loss scaler skips the step.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from finds import Finds, text_of
from mpnanny import MixedPrecisionNanny
from torch import nn

FROM = 4  # the first step with such a gradient
Loss = Callable[[nn.Module, torch.Tensor, bool], torch.Tensor]


def above_zero(z: torch.Tensor) -> torch.Tensor:
    return z * (z.detach() > 0)  # zero, where nothing else is


@pytest.fixture
def trained(db, database) -> Callable[..., Finds]:
    def run(
        loss_of: Loss, shadow: str, scaled: bool = False, every: int = 1, steps: int = 12
    ) -> Finds:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8))
        descent = torch.optim.SGD(model.parameters(), lr=1e-3)
        scaler = torch.amp.GradScaler("cpu", enabled=scaled, init_scale=2.0**10)
        with MixedPrecisionNanny(model, db=db, shadow=shadow, quiet=True):
            for step in range(steps):
                descent.zero_grad()
                bad = step >= FROM and step % every == 0
                loss = loss_of(model, torch.randn(16, 8), bad)
                assert step > FROM or bool(loss.isfinite())
                scaler.scale(loss).backward()
                scaler.step(descent)
                scaler.update()
        assert database().rows("SELECT * FROM event WHERE type = 'hook_failed'") == []
        return Finds(database())

    return run


def root_behind_a_where(model, x, bad):
    z = above_zero(model(x)) + (0.0 if bad else 0.1)
    root = z.sqrt()  # pole 0
    return torch.where(z > 0, root, torch.zeros_like(root)).mean()  # zero


def root_times_a_mask(model, x, bad):
    z = above_zero(model(x)) + (0.0 if bad else 0.1)
    root = z.sqrt()  # pole 0
    return (root * (z > 0).float()).mean()  # zero


def power_of_zero(model, x, bad):
    z = above_zero(model(x)) + (0.0 if bad else 0.1)
    return (z**0.5).mean()  # pole 0


def distance_of_equal_points(model, x, bad):
    apart = model(x) - model(x.clone() if bad else x + 0.3)
    square = apart.pow(2).sum(1)  # zero
    return square.sqrt().mean()  # pole 0


def logarithm_under_a_mask(model, x, bad):
    p = above_zero(model(x)) + (0.0 if bad else 0.1)
    logs = torch.log(p + 0.0)  # pole 0
    return logs.masked_fill(p == 0, 0.0).mean()  # zero


def unit_vector(model, x, bad):
    z = model(x) * (0.0 if bad else 1.0)
    length = (z * z).sum(1, keepdim=True).sqrt()  # pole 0
    return ((z / (length + 1e-6)) * x).mean()


class Root(torch.autograd.Function):
    @staticmethod
    def forward(ctx, z):
        ctx.save_for_backward(z)
        return z.abs().sqrt()

    @staticmethod
    def backward(ctx, gradient):
        (z,) = ctx.saved_tensors
        return gradient * 0.5 * z.sign() / z.abs().sqrt()  # pole


def own_derivative(model, x, bad):
    return Root.apply(above_zero(model(x)) + (0.0 if bad else 0.1)).mean()


POLES = [
    root_behind_a_where,
    root_times_a_mask,
    power_of_zero,
    distance_of_equal_points,
    logarithm_under_a_mask,
    unit_vector,
    own_derivative,
]


def _expect(found: Finds, scaled: bool) -> dict[str, Any]:
    first = found.first()
    assert "# pole" in first["line"] and first["severity"] == "ERROR"
    assert (first["kind"], first["precision"]) == ("undefined", "excluded")
    assert "gradient" in first["reach"] and first["step"] == FROM
    poles = [each for each in found.severe if each["phase"] == "backward"]
    assert all("# pole" in each["line"] for each in poles), "what it meets is no finding of its own"
    return json.loads(first["detail"])


@pytest.mark.parametrize("loss_of", POLES)
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("shadow", ["every=1", "steps=0-1"])
def test_an_infinite_derivative_is_found_at_its_line(trained, loss_of, scaled, shadow):
    found = trained(loss_of, shadow, scaled, steps=FROM + 2)
    detail = _expect(found, scaled)
    if loss_of is not own_derivative and found.first()["phase"] == "backward":
        if shadow == "every=1":
            assert detail["derivative"][0][0] == 0
        if shadow == "every=1" and loss_of is not unit_vector:
            assert "# zero" in text_of(detail["meets"][0][1])


def test_a_derivative_that_is_infinite_in_every_third_step_is_found_though_all_are_skipped(trained):
    found = trained(root_behind_a_where, "steps=0-1", scaled=True, every=3, steps=8)
    first = found.first()
    assert (first["severity"], first["step"]) == ("ERROR", 6) and "# pole" in first["line"]


def test_an_input_that_was_rounded_to_the_pole_is_precision(trained):
    def loss_of(model, x, bad):
        u = nn.functional.normalize(model(x), dim=1)
        v = nn.functional.normalize(
            u.detach() + (0.02 if bad else 2.0) * torch.randn_like(u), dim=1
        )
        cosine = (u * v).sum(1).bfloat16()
        return cosine.acos().float().mean()  # pole

    for scaled in (False, True):
        first = trained(loss_of, "every=1", scaled, steps=FROM + 1).first()
        assert (first["kind"], first["precision"]) == ("range", "proven")
        assert "# pole" in first["line"]
        [[held, reference]] = json.loads(first["detail"])["derivative"]
        assert held == 1 and 0.99 < reference < 1


class Distances(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(8))
        self.register_buffer("points", torch.randn(5, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.scale * (x[:, None, :] - self.points)).square().sum(-1).sqrt()  # pole


def test_a_row_that_equals_a_buffer_fails_in_any_precision_also_in_a_step_without_shadow(
    db, database
):
    torch.manual_seed(0)
    model = nn.Sequential(Distances(), nn.Linear(5, 5))
    descent = torch.optim.SGD(model.parameters(), lr=1e-3)
    with MixedPrecisionNanny(model, db=db, shadow="steps=0-1", quiet=True):
        for step in range(4):
            x = torch.randn(16, 8)
            if step == 3:
                x[2] = model[0].points[1]
            descent.zero_grad()
            model(x).square().mean().backward()
            descent.step()
    first = Finds(database()).first()
    assert "# pole" in first["line"] and first["step"] == 3
    assert (first["kind"], first["precision"]) == ("undefined", "excluded")


def test_healthy_twins_give_nothing(trained):
    def guarded(model, x, bad):
        z = model(x).relu()
        safe = torch.where(z > 0, z, torch.ones_like(z))
        return torch.where(z > 0, safe.sqrt(), torch.zeros_like(z)).mean()

    def norm_of_zero(model, x, bad):
        return (model(x) * 0.0).norm(dim=1).mean() + model(x).square().mean()

    def relu_before_the_root(model, x, bad):
        """The gradient of the ReLU is 0 there, whatever comes in."""
        return model(x).relu().sqrt().mean()

    for loss_of in (guarded, norm_of_zero, relu_before_the_root):
        for scaled in (False, True):
            for shadow in ("every=1", "steps=0-1"):
                assert trained(loss_of, shadow, scaled, steps=6).severe == []


def test_the_search_for_a_scale_is_no_fault(trained):
    """At 2^16 the loss's own derivative leaves the range of FP16."""

    def loss_of(model, x, bad):
        return (model(x).half() * 100.0).float().mean()

    for shadow in ("every=1", "steps=0-1"):
        assert trained(loss_of, shadow, scaled=True, steps=8).severe == []
