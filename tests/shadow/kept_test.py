"""Gradients that are not finite and that a skipped step leaves for the next one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from conftest import Database
from finds import Finds, inputs
from mpnanny import MixedPrecisionNanny
from torch import nn

STEPS = 16
BAD = 6  # the step whose loss overflows


@pytest.fixture
def run(db: str, database: Callable[[], Database]) -> Callable[..., list[dict[str, Any]]]:
    def train(
        body: Callable[[nn.Module, Any, Any, int], None], passes: int = 1
    ) -> list[dict[str, Any]]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        scaler = torch.amp.GradScaler("cpu", init_scale=16.0, growth_interval=1000)
        with MixedPrecisionNanny(model, db=db, shadow="off", quiet=True):
            for step in range(STEPS):
                body(model, optimizer, scaler, step)
        assert database().rows("SELECT * FROM event WHERE type = 'hook_failed'") == []
        found = [each for each in Finds(database()).all if each["kind"] == "nonfinite_kept"]
        for each in found:
            each["detail"] = json.loads(each["detail"])
        return found

    return train


def loss_of(model: nn.Module, step: int) -> torch.Tensor:
    return model(inputs()).square().mean() * (float("inf") if step == BAD else 1.0)


def test_a_scaler_whose_skipped_step_leaves_them(run):
    def body(model: nn.Module, optimizer: Any, scaler: Any, step: int) -> None:
        scaler.scale(loss_of(model, step)).backward()
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() >= before:
            optimizer.zero_grad()

    (found,) = run(body)
    assert (found["severity"], found["precision"]) == ("ERROR", "excluded")
    assert found["line"] == "scaler.scale(loss_of(model, step)).backward()"
    assert found["detail"]["since"] == BAD + 1
    assert "0.weight" in found["detail"]["parameters"]


def test_a_program_that_skips_by_itself(run):
    def body(model: nn.Module, optimizer: Any, scaler: Any, step: int) -> None:
        loss_of(model, step).backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if not torch.isfinite(norm):
            return
        optimizer.step()
        optimizer.zero_grad()

    (found,) = run(body)
    assert found["severity"] == "ERROR"


# --- what is right ---


def test_gradients_that_are_zeroed_before_each_pass(run):
    def body(model: nn.Module, optimizer: Any, scaler: Any, step: int) -> None:
        optimizer.zero_grad()
        scaler.scale(loss_of(model, step)).backward()
        scaler.step(optimizer)
        scaler.update()

    assert run(body) == []


def test_a_loss_that_is_left_out_before_it_is_derived(run):
    def body(model: nn.Module, optimizer: Any, scaler: Any, step: int) -> None:
        loss = loss_of(model, step)
        if not torch.isfinite(loss):
            return
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    assert run(body) == []


def test_accumulation_of_which_one_pass_is_not_finite(run):
    def body(model: nn.Module, optimizer: Any, scaler: Any, step: int) -> None:
        scaler.scale(loss_of(model, step)).backward()
        if step % 4 == 3:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()

    assert run(body) == []
