"""Several backward passes a step: the loss is their mean, the norm that of what the optimizer gets,
wherever the gradients are added up.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from mpnanny import MixedPrecisionNanny
from torch import nn

PASSES, STEPS = 4, 6
HOWS = ["in .grad", "undivided", "taken, set to None", "taken, zeroed", "masters"]


def _train(db: str, how: str, dtype: torch.dtype = torch.float32) -> tuple[list, list]:
    """What a step's loss and norm are, by the program's own count."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)).to(dtype)
    weights = list(model.parameters())
    masters = [p.detach().clone().float().requires_grad_() for p in weights]
    optimizer = torch.optim.AdamW(masters if how == "masters" else weights, lr=1e-2)
    losses, norms = [], []
    with MixedPrecisionNanny(model, db=db, shadow="off", quiet=True):
        for _ in range(STEPS):
            sums = [torch.zeros(p.shape) for p in weights]
            total = 0.0
            for _ in range(PASSES):
                x = torch.randn(8, 8)
                loss = nn.functional.cross_entropy(model(x.to(dtype)).float(), x.argmax(1) % 4)
                total += loss.item() / PASSES
                (loss if how == "undivided" else loss / PASSES).backward()
                if how.startswith(("taken", "masters")):
                    for held, p in zip(sums, weights, strict=True):
                        held += p.grad
                        if how == "taken, zeroed":
                            p.grad.zero_()
                        else:
                            p.grad = None
            if how.startswith(("taken", "masters")):
                for held, p in zip(sums, masters if how == "masters" else weights, strict=True):
                    p.grad = held.to(p.dtype)
            own = masters if how == "masters" else weights
            norms.append(float(torch.cat([p.grad.flatten() for p in own]).norm()))
            losses.append(total)
            if how == "masters":
                nn.utils.clip_grad_norm_(own, 0.01)
            optimizer.step()
            optimizer.zero_grad()
            with torch.no_grad():
                for p, master in zip(weights, masters, strict=True) if how == "masters" else ():
                    p.copy_(master)
    return losses, norms


@pytest.mark.parametrize("how", HOWS)
def test_the_loss_is_the_mean_of_the_passes_and_the_norm_that_of_the_optimizer(
    how: str, db: str, database: Callable[[], Any]
) -> None:
    losses, norms = _train(db, how, torch.bfloat16 if how == "masters" else torch.float32)
    rows = database().rows("SELECT loss, grad_norm FROM step ORDER BY step")
    assert len(rows) == STEPS
    assert [row["loss"] for row in rows] == pytest.approx(losses, rel=1e-5)
    # That an optimizer holds copies shows when it steps first, and these are clipped by then.
    first = how == "masters"
    norms_told = [row["grad_norm"] for row in rows]
    assert norms_told[first:] == pytest.approx(norms[first:], rel=1e-3)


@pytest.mark.parametrize("how", HOWS)
def test_the_record_says_how_many_passes_and_where_they_are_added_up(
    how: str, db: str, database: Callable[[], Any]
) -> None:
    _train(db, how)
    event = database().rows("SELECT detail FROM event WHERE type = 'accumulation'")[-1]
    detail = json.loads(event["detail"])
    assert detail["backwards"] == PASSES and detail["dtype"] == "float32"
    assert detail.get("taken_out", False) == how.startswith(("taken", "masters"))
    assert detail.get("sum_of_losses", 1.0) == (PASSES if how == "undivided" else 1.0)


def test_a_pass_whose_gradients_are_thrown_away_is_none_of_the_step(
    db: str, database: Callable[[], Any]
) -> None:
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    losses = []
    with MixedPrecisionNanny(model, db=db, shadow="off", quiet=True):
        for _ in range(4):
            (100 * model(torch.randn(8, 8)).square().mean()).backward()
            optimizer.zero_grad()
            loss = model(torch.randn(8, 8)).square().mean()
            loss.backward()
            losses.append(loss.item())
            optimizer.step()
            optimizer.zero_grad()
    rows = database().rows("SELECT loss FROM step ORDER BY step")
    assert [row["loss"] for row in rows] == pytest.approx(losses)


def test_the_last_passes_of_an_epoch_are_fewer(db: str, database: Callable[[], Any]) -> None:
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    losses = []
    with MixedPrecisionNanny(model, db=db, shadow="off", quiet=True):
        for passes in (4, 4, 2):
            total = 0.0
            for _ in range(passes):
                loss = model(torch.randn(8, 8)).square().mean()
                (loss / 4).backward()
                total += loss.item()
            losses.append(total / passes)
            optimizer.step()
            optimizer.zero_grad()
    rows = database().rows("SELECT loss FROM step ORDER BY step")
    assert [row["loss"] for row in rows] == pytest.approx(losses)


def test_a_loss_is_read_in_shadow_steps_too(db: str, database: Callable[[], Any]) -> None:
    """What it was divided by is a number that torch holds as a tensor."""
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    losses = []
    with MixedPrecisionNanny(model, db=db, shadow="every=1", quiet=True):
        for _ in range(3):
            total = 0.0
            for factor in (0.5, 0.5):
                loss = model(torch.randn(8, 8)).square().mean()
                (loss * factor).backward()
                total += loss.item() / 2
            losses.append(total)
            optimizer.step()
            optimizer.zero_grad()
    rows = database().rows("SELECT loss FROM step ORDER BY step")
    assert [row["loss"] for row in rows] == pytest.approx(losses)
    assert database().rows("SELECT * FROM event WHERE type = 'hook_failed'") == []
