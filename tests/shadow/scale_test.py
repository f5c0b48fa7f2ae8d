"""Gradients that depend on the loss scale, and protocols that keep them from it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from finds import Finds, inputs, text_of
from mpnanny import MixedPrecisionNanny
from torch import nn

SCALE = 2.0**10


class Training:
    """A small FP16 training; `step(training)` is one step of it."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
        self.descent = torch.optim.SGD(self.model.parameters(), lr=1e-2)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=SCALE)

    def loss(self) -> torch.Tensor:
        with torch.autocast("cpu", torch.float16):
            return nn.functional.cross_entropy(self.model(inputs()), torch.randint(0, 3, (16,)))

    def clip(self) -> torch.Tensor:
        return nn.utils.clip_grad_norm_(self.model.parameters(), 0.1)


Step = Callable[[Training], Any]


@pytest.fixture
def found(db, database) -> Callable[[Step], list[dict[str, Any]]]:
    """The findings of this kind in six steps of a training."""

    def run(step: Step) -> list[dict[str, Any]]:
        training = Training()
        with MixedPrecisionNanny(training.model, db=db, shadow="every=1", quiet=True):
            for _ in range(6):
                training.descent.zero_grad()
                step(training)
        finds = Finds(database())
        assert len(finds.steps) == 6
        return [each for each in finds.all if each["kind"] == "scale_dependent"]

    return run


# --- right ---


def plain(t: Training) -> None:
    t.scaler.scale(t.loss()).backward()
    t.scaler.step(t.descent)
    t.scaler.update()


def clipped_after_unscaling(t: Training) -> None:
    t.scaler.scale(t.loss()).backward()
    t.scaler.unscale_(t.descent)
    print(t.clip().item())
    t.scaler.step(t.descent)
    t.scaler.update()


def accumulated(t: Training) -> None:
    for _ in range(3):
        t.scaler.scale(t.loss() / 3).backward()
    t.scaler.unscale_(t.descent)
    t.clip()
    t.scaler.step(t.descent)
    t.scaler.update()


def unscaled_by_hand(t: Training) -> None:
    (t.loss() * SCALE).backward()
    for parameter in t.model.parameters():
        parameter.grad.div_(SCALE)
    t.descent.step()


def unscaled_by_the_scalers_number(t: Training) -> None:
    t.scaler.scale(t.loss()).backward()
    scale = t.scaler.get_scale()
    for parameter in t.model.parameters():
        parameter.grad.div_(scale)
    t.clip()
    t.descent.step()


def gradient_penalty(t: Training) -> None:
    """As PyTorch's documentation has it."""
    loss = t.loss()
    parameters = list(t.model.parameters())
    scaled = torch.autograd.grad(t.scaler.scale(loss), parameters, create_graph=True)
    inverse = 1.0 / t.scaler.get_scale()
    penalty = sum((each * inverse).pow(2).sum() for each in scaled).sqrt()
    t.scaler.scale(loss + 0.01 * penalty).backward()
    t.scaler.step(t.descent)
    t.scaler.update()


def weight_decay_after_unscaling(t: Training) -> None:
    t.scaler.scale(t.loss()).backward()
    t.scaler.unscale_(t.descent)
    for parameter in t.model.parameters():
        parameter.grad.add_(parameter.detach(), alpha=1e-2)
    t.scaler.step(t.descent)
    t.scaler.update()


def not_scaled(t: Training) -> None:
    t.loss().backward()
    t.clip()
    t.descent.step()


def two_scaled_losses(t: Training) -> None:
    first, second = t.scaler.scale(t.loss()), t.scaler.scale(0.1 * t.loss())
    first.backward()
    (second / 2).backward()
    t.scaler.step(t.descent)
    t.scaler.update()


def sum_of_scaled_losses(t: Training) -> None:
    (t.scaler.scale(t.loss()) + 0.1 * t.scaler.scale(t.loss())).backward()
    t.scaler.step(t.descent)
    t.scaler.update()


def second_loss_after_unscaling(t: Training) -> None:
    t.scaler.scale(t.loss()).backward()
    t.scaler.unscale_(t.descent)
    t.loss().backward()
    t.scaler.step(t.descent)
    t.scaler.update()


def second_loss_times_the_scalers_number(t: Training) -> None:
    t.scaler.scale(t.loss()).backward()
    (t.loss() * t.scaler.get_scale()).backward()
    t.scaler.step(t.descent)
    t.scaler.update()


def attacked(t: Training) -> None:
    """The gradients of the attack are taken away again."""
    t.loss().backward()
    t.descent.zero_grad()
    t.scaler.scale(t.loss()).backward()
    t.scaler.step(t.descent)
    t.scaler.update()


def saliency(t: Training) -> None:
    """A gradient of the inputs alone."""
    t.scaler.scale(t.loss()).backward()
    x = inputs().requires_grad_()
    t.model(x).sum().backward(inputs=[x])
    t.scaler.step(t.descent)
    t.scaler.update()


@pytest.mark.parametrize(
    "step",
    [
        two_scaled_losses,
        sum_of_scaled_losses,
        second_loss_after_unscaling,
        second_loss_times_the_scalers_number,
        attacked,
        saliency,
        plain,
        clipped_after_unscaling,
        accumulated,
        unscaled_by_hand,
        unscaled_by_the_scalers_number,
        gradient_penalty,
        weight_decay_after_unscaling,
        not_scaled,
    ],
)
def test_a_right_protocol_gives_nothing(found, step):
    assert found(step) == []


# --- wrong ---


def clipped_before_unscaling(t: Training) -> None:
    t.scaler.scale(t.loss()).backward()
    nn.utils.clip_grad_norm_(t.model.parameters(), 0.1)  # fault
    t.scaler.step(t.descent)
    t.scaler.update()


def derived_without_the_scale(t: Training) -> None:
    loss = t.loss()
    t.scaler.scale(loss)
    loss.backward()
    t.scaler.step(t.descent)  # fault
    t.scaler.update()


def never_unscaled(t: Training) -> None:
    t.scaler.scale(t.loss()).backward()
    t.descent.step()  # fault


def weight_decay_before_unscaling(t: Training) -> None:
    t.scaler.scale(t.loss()).backward()
    for parameter in t.model.parameters():
        parameter.grad.add_(parameter.detach(), alpha=1.0 * SCALE / 4)  # fault
    t.scaler.step(t.descent)
    t.scaler.update()


@pytest.mark.parametrize(
    ("step", "power", "severity"),
    [
        (clipped_before_unscaling, -1, "ERROR"),
        (derived_without_the_scale, -1, "ERROR"),
        (never_unscaled, 1, "ERROR"),
        (weight_decay_before_unscaling, None, "WARNING"),
    ],
)
def test_gradients_that_depend_on_the_scale_are_found_at_their_line(found, step, power, severity):
    findings = found(step)
    assert len(findings) == 1 and findings[0]["severity"] == severity
    assert findings[0]["precision"] == "excluded" and "# fault" in findings[0]["line"]
    detail = json.loads(findings[0]["detail"])
    assert detail["scale"] == SCALE
    assert power is None or abs(detail["power"] - power) < 0.05


def second_loss_without_the_scale(t: Training) -> None:
    t.scaler.scale(t.loss()).backward()
    (0.1 * t.loss()).backward()  # fault
    t.scaler.step(t.descent)
    t.scaler.update()


def first_loss_without_the_scale(t: Training) -> None:
    t.loss().mean().backward()  # fault
    t.scaler.scale(t.loss()).backward()
    t.scaler.step(t.descent)
    t.scaler.update()


def part_without_the_scale(t: Training) -> None:
    (t.scaler.scale(t.loss()) + t.loss()).backward()  # fault
    t.scaler.step(t.descent)
    t.scaler.update()


def part_scaled_twice(t: Training) -> None:
    t.scaler.scale(t.loss() + 0.1 * t.scaler.scale(t.loss())).backward()  # fault
    t.scaler.step(t.descent)
    t.scaler.update()


@pytest.mark.parametrize(
    ("step", "power"),
    [
        (second_loss_without_the_scale, -1),
        (first_loss_without_the_scale, -1),
        (part_without_the_scale, -1),
        (part_scaled_twice, 1),
    ],
)
@pytest.mark.parametrize("shadow", ["every=1", "off"])
def test_losses_with_and_without_the_scale_are_told_apart(db, database, step, power, shadow):
    training = Training()
    with MixedPrecisionNanny(training.model, db=db, shadow=shadow, quiet=True):
        for _ in range(6):
            training.descent.zero_grad()
            step(training)
    found = [each for each in Finds(database()).all if each["kind"] == "scale_dependent"]
    assert len(found) == 1 and "# fault" in found[0]["line"]
    assert found[0]["severity"] == ("ERROR" if power > 0 else "WARNING")
    assert json.loads(found[0]["detail"])["power"] == power


def test_where_the_scale_came_in_and_left_is_named(found):
    detail = json.loads(found(clipped_before_unscaling)[0]["detail"])
    assert text_of(detail["entered"]) == "t.scaler.scale(t.loss()).backward()"
    assert [text_of(source).split("(")[0] for source in detail["left"]] == [
        "nn.utils.clip_grad_norm_",
        "t.scaler.step",
    ]


def test_a_step_that_the_scaler_leaves_out_is_not_judged(found):
    def overflows(t: Training) -> None:
        t.scaler.scale(t.loss() * 1e30).backward()
        t.scaler.step(t.descent)
        t.scaler.update()

    assert found(overflows) == []
