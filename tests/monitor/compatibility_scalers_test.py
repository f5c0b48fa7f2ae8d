"""Loss scales of others, of a second stage, of two optimizers, and of scalers that are made of
torch's: losses and gradients are recorded without them.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from conftest import Database, batch, cross_entropy
from mpnanny import MixedPrecisionNanny, watch_model
from torch import nn
from torch.amp import GradScaler


def norm(model: nn.Module, scale: float = 1.0) -> float:
    return math.hypot(*(p.grad.double().norm().item() / scale for p in model.parameters()))


def recorded(database: Callable[[], Database]) -> tuple[list, list, list]:
    rows = database().rows("SELECT loss, grad_norm, loss_scale FROM step ORDER BY step")
    return tuple([row[key] for row in rows] for key in ("loss", "grad_norm", "loss_scale"))


def block(nanny: MixedPrecisionNanny, step: int, blocks: bool) -> Any:
    return nanny.step(step) if blocks else contextlib.nullcontext()


@pytest.mark.parametrize("blocks", [True, False])
def test_another_models_scaler_is_not_this_ones(blocks, db, database):
    mine, other = nn.Linear(8, 3), nn.Linear(8, 3)
    my_descent, other_descent = (torch.optim.SGD(m.parameters(), lr=1e-2) for m in (mine, other))
    scaler = GradScaler("cpu")
    nanny = watch_model(mine, db=db, quiet=True)
    losses, norms = [], []
    for step in range(4):
        with block(nanny, step, blocks):
            x, y = batch()
            my_descent.zero_grad()
            output = mine(x)
            other_descent.zero_grad()
            scaler.scale(cross_entropy(other(x), y)).backward()
            scaler.step(other_descent)
            scaler.update()
            loss = cross_entropy(output, y)
            loss.backward()
            losses.append(loss.item())
            norms.append(norm(mine))
            my_descent.step()
    nanny.close()
    assert recorded(database)[1] == pytest.approx(norms, rel=1e-5)
    assert recorded(database)[2] == [None] * 4
    if not blocks:  # within a block all losses count that are not logged
        assert recorded(database)[0] == losses


@pytest.mark.parametrize("given", [True, False])
def test_a_new_scaler_takes_over(given, db, database):
    model = nn.Linear(8, 3)
    scaler = GradScaler("cpu", init_scale=1024.0)
    nanny = watch_model(model, db=db, quiet=True, scaler=scaler if given else None)
    losses, norms = [], []
    for scale in (1024.0, 65536.0):
        descent = torch.optim.SGD(model.parameters(), lr=1e-2)
        for _ in range(3):
            descent.zero_grad()
            x, y = batch()
            loss = cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            losses.append(loss.item())
            norms.append(norm(model, scale))
            scaler.step(descent)
            scaler.update()
        scaler = GradScaler("cpu", init_scale=65536.0)
    nanny.close()
    assert recorded(database) == (
        losses,
        pytest.approx(norms, rel=1e-5),
        [1024.0] * 3 + [65536.0] * 3,
    )
    assert database().alerts() == []


@pytest.mark.parametrize("blocks", [True, False])
def test_two_scalers_of_one_model_are_held_apart(blocks, db, database):
    model = nn.ModuleDict({"first": nn.Linear(8, 3), "second": nn.Linear(8, 3)})
    descents = {name: torch.optim.SGD(part.parameters(), lr=1e-2) for name, part in model.items()}
    scales = {"first": 2.0**16, "second": 2.0**8}
    scalers = {name: GradScaler("cpu", init_scale=scale) for name, scale in scales.items()}
    nanny = watch_model(model, db=db, quiet=True)
    losses = []
    for step in range(12):
        with block(nanny, step, blocks):
            total = 0.0
            for name, part in model.items():
                x, y = batch()
                descents[name].zero_grad()
                loss = cross_entropy(part(x), y)
                scalers[name].scale(loss).backward()
                scalers[name].step(descents[name])
                scalers[name].update()
                total += loss.item()
            losses.append(total)
    nanny.close()
    assert database().one("SELECT max(grad_norm) AS most FROM step")["most"] < 10
    flags = database().rows("SELECT flags & 56 AS f FROM step")  # skipped, fell, rose
    assert {row["f"] for row in flags} == {0}
    assert database().alerts() == []
    if blocks:
        # A step's loss is the mean over its backward passes.
        means = [each / 2 for each in losses]
        assert recorded(database)[0] == pytest.approx(means, rel=1e-6)


class Own(GradScaler):
    """Scales by itself, as ShardedGradScaler does."""

    def scale(self, outputs: torch.Tensor) -> torch.Tensor:
        if self._scale is None:
            self._lazy_init_scale_growth_tracker(outputs.device)
        return outputs * self._scale


class Telling(GradScaler):
    """Adds something to what torch's does."""

    def scale(self, outputs: torch.Tensor) -> torch.Tensor:
        return super().scale(outputs) + 0.0

    def update(self, new_scale: float | None = None) -> None:
        super().update(new_scale)


@pytest.mark.parametrize("kind", [Own, Telling])
def test_a_scaler_made_of_torchs_is_heard_once(kind, db, database):
    model = nn.Linear(8, 3)
    descent = torch.optim.SGD(model.parameters(), lr=1e-2)
    scaler = kind("cpu")
    nanny = watch_model(model, db=db, quiet=True)
    losses, norms = [], []
    for _ in range(4):
        descent.zero_grad()
        x, y = batch()
        loss = cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        losses.append(loss.item())
        norms.append(norm(model, 65536.0))
        scaler.step(descent)
        scaler.update()
    nanny.close()
    assert recorded(database) == (losses, pytest.approx(norms, rel=1e-5), [65536.0] * 4)
    assert "scale" in vars(kind) and kind.scale.__qualname__ == f"{kind.__name__}.scale"
