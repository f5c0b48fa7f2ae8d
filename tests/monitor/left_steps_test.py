"""Steps that the training loop leaves without an update (`zero_grad(); continue`) are steps, and
what looks like them within a step is none.
"""

from __future__ import annotations

import json
import math

import pytest
import torch
from mpnanny import MixedPrecisionNanny
from torch import nn

STEPS = 12
BAD = (4, 7, 8)  # steps with a batch that is not finite
LOOPS = [
    "before backward",
    "before backward, zeroed first",
    "before backward, zeroed after the update",
    "after backward",
    "after clipping",
    "with a scaler",
    "accumulated",
    "in blocks",
]
SEEN_LOSSES = ("after backward", "after clipping", "in blocks")


def _batch(step: int, bad: bool = True) -> torch.Tensor:
    x = torch.randn(16, 4)
    if bad and step in BAD:
        x[0, 0] = math.nan
    return x


def _model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def _events(database) -> list[dict]:
    rows = database().rows("SELECT detail FROM event WHERE type = 'step_left' ORDER BY rowid")
    return [json.loads(row["detail"]) for row in rows]


def _train(db: str, loop: str) -> list[float]:
    """The loss of each turn of the loop."""
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", enabled=loop == "with a scaler")
    losses = []
    with MixedPrecisionNanny(model, optimizer, db=db, shadow="off", quiet=True) as nanny:

        def turn(step: int) -> None:
            if loop == "accumulated":
                total = 0.0
                for _ in range(3):
                    loss = model(_batch(step)).square().mean() / 3
                    loss.backward()
                    total += loss.item()
                losses.append(total)
                if math.isfinite(total):
                    optimizer.step()
                optimizer.zero_grad()
                return
            loss = model(_batch(step)).square().mean()
            losses.append(loss.item())
            if loop == "before backward, zeroed first":
                optimizer.zero_grad()
            if loop.startswith(("before", "with", "in")) and not torch.isfinite(loss):
                if loop != "before backward, zeroed after the update":
                    optimizer.zero_grad()
                return
            scaler.scale(loss).backward()
            if loop == "after backward" and not torch.isfinite(loss):
                model.zero_grad()
                return
            if loop in ("after clipping"):
                norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                if not norm < 1e4:
                    optimizer.zero_grad()
                    return
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()

        for step in range(STEPS):
            if loop == "in blocks":
                with nanny.step(step) as record:
                    turn(step)
                    record.log(loss=losses[-1])
            else:
                turn(step)
    return losses


@pytest.mark.parametrize("loop", LOOPS)
def test_a_step_that_is_left_is_recorded_with_its_number(loop, db, database):
    losses = _train(db, loop)
    rows = database().rows("SELECT step, loss, flags FROM step ORDER BY step")
    assert [row["step"] for row in rows] == list(range(STEPS))
    for row, loss in zip(rows, losses, strict=True):
        if math.isfinite(loss):
            assert row["loss"] == pytest.approx(loss), row
        else:  # one that was never derived or logged is not known
            seen = loop in (*SEEN_LOSSES, "accumulated")
            assert (row["loss"], row["flags"] & 1) == (None, int(seen)), row
    found = database().rows("SELECT step, last_step FROM alert WHERE type = 'NAN'")
    assert [(row["step"], row["last_step"]) for row in found][:1] == [(BAD[0], BAD[-1])]
    assert _events(database)[-1] == {"count": len(BAD), "first": BAD[0]}


def _attacks(model, optimizer, step):
    """FGSM: a pass for the input's gradient, one for the weights'."""
    x = _batch(step, bad=False).requires_grad_()
    model(x).square().mean().backward()
    optimizer.zero_grad()
    return model((x + 0.1 * x.grad.sign()).detach()).square().mean()


def _attacks_later(model, optimizer, step):
    return (_attacks if step >= STEPS // 2 else _plain)(model, optimizer, step)


def _attacks_now_and_then(model, optimizer, step):
    return (_attacks if step % 3 == 1 else _plain)(model, optimizer, step)


def _plain(model, _optimizer, step):
    return model(_batch(step, bad=False)).square().mean()


def _two_views(model, _optimizer, step):
    return (model(_batch(step)) - model(_batch(step))).square().mean()


def _accumulates(model, optimizer, step):
    optimizer.zero_grad()
    for _ in range(3):
        (model(_batch(step, bad=False)).square().mean() / 4).backward()
    return model(_batch(step, bad=False)).square().mean() / 4


def _zeroes_each_pass(model, optimizer, step):
    for _ in range(3):
        optimizer.zero_grad()
        model(_batch(step, bad=False)).square().mean().backward()
    optimizer.zero_grad()
    return model(_batch(step, bad=False)).square().mean()


def _by_critic(model, optimizer, step):
    """A generator learns through the model, which is its critic: every third step."""
    if step % 3 == 2:
        optimizer.generator.zero_grad()
        (-model(optimizer.noise(_batch(step, bad=False))).mean()).backward()
        optimizer.generator.step()
    optimizer.zero_grad()
    fake = optimizer.noise(_batch(step, bad=False)).detach()
    return model(fake).mean() - model(_batch(step, bad=False)).mean()


def _evaluates(model, optimizer, step):
    loss = model(_batch(step, bad=False)).square().mean()
    optimizer.zero_grad()
    with torch.no_grad():
        model(_batch(step))
    return loss


@pytest.mark.parametrize(
    "loss_of",
    [
        _attacks,
        _attacks_later,
        _attacks_now_and_then,
        _two_views,
        _accumulates,
        _zeroes_each_pass,
        _by_critic,
        _evaluates,
    ],
)
def test_passes_of_one_update_stay_one_step(loss_of, db, database):
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    optimizer.noise = nn.Linear(4, 4)
    optimizer.generator = torch.optim.SGD(optimizer.noise.parameters(), lr=0.01)
    with MixedPrecisionNanny(model, optimizer, db=db, shadow="off", quiet=True):
        for step in range(STEPS):
            loss_of(model, optimizer, step).backward()
            optimizer.step()
            optimizer.zero_grad()
    steps = [row["step"] for row in database().rows("SELECT step FROM step ORDER BY step")]
    assert steps == list(range(STEPS))
    assert _events(database) == []


def test_an_optimizer_that_runs_the_model_itself_leaves_no_step(db, database):
    model = _model()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)
    with MixedPrecisionNanny(model, optimizer, db=db, shadow="off", quiet=True):
        for step in range(4):
            x = _batch(step, bad=False)

            def closure(x=x):
                optimizer.zero_grad()
                loss = model(x).square().mean()
                loss.backward()
                return loss

            optimizer.step(closure)
    assert database().one("SELECT count(*) AS n FROM step")["n"] == 4
    assert _events(database) == []


def test_many_steps_that_are_left_take_few_events(db, database):
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with MixedPrecisionNanny(model, optimizer, db=db, shadow="off", quiet=True):
        for turn in range(200):
            x = _batch(0)
            if turn % 2:
                x[0, 0] = math.nan
            loss = model(x).square().mean()
            optimizer.zero_grad()
            if turn % 2:
                continue
            loss.backward()
            optimizer.step()
    told = [each["count"] for each in _events(database)]
    assert told == [1, 2, 4, 8, 16, 32, 64, 99]
    # Nothing came after the last one that would have shown that it was left.
    assert database().one("SELECT count(*) AS n FROM step")["n"] == 200
