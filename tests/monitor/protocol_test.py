"""What the run says of the way it is trained: one event for each fact, at the step it was met."""

from __future__ import annotations

import json
import linecache
from collections.abc import Callable
from typing import Any

import torch
from conftest import Database, Mlp, batch, cross_entropy
from mpnanny import MixedPrecisionNanny
from torch import nn

Body = Callable[[Any, Any, Any, torch.Tensor, int], None]


def train(db: str, body: Body, steps: int = 4, scaled: bool = True, interval: int = 1) -> None:
    torch.manual_seed(0)
    model = Mlp()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, enabled=scaled)
    dtype = torch.float16 if scaled else torch.bfloat16
    with MixedPrecisionNanny(model, db=db, quiet=True, trace_interval=interval) as nanny:
        for step in range(steps):
            x, y = batch()
            with nanny.step(step):
                with torch.autocast("cpu", dtype):
                    loss = cross_entropy(model(x), y)
                optimizer.zero_grad()
                body(model, optimizer, scaler, loss, step)


def told(database: Callable[[], Database]) -> dict[str, list[tuple[int, dict[str, Any]]]]:
    found: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    for row in database().rows("SELECT step, type, detail FROM event ORDER BY rowid"):
        found.setdefault(row["type"], []).append((row["step"], json.loads(row["detail"] or "{}")))
    return found


def text_of(source: str) -> str:
    file, _, number = source.rpartition(":")
    return linecache.getline(file, int(number)).strip()


def clip(model: nn.Module) -> None:
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)


def test_a_right_order_of_calls(db, database):
    def body(model, optimizer, scaler, loss, _):
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        clip(model)
        scaler.step(optimizer)
        scaler.update()

    train(db, body)
    events = told(database)
    ((step, optimizer),) = events["optimizer"]
    assert (step, optimizer["kind"], optimizer["lr"], optimizer["with_state"]) == (
        0,
        "AdamW",
        1e-3,
        0,
    )
    assert optimizer["eps"] == 1e-8 and optimizer["betas"] == [0.9, 0.999]
    ((_, scaler),) = events["scaler"]
    assert (scaler["scale"], scaler["growth_interval"]) == (1024.0, 2000.0)
    assert events["autocast"] == [(0, {"dtype": "float16"})]
    ((_, clipped),) = events["clip"]
    assert clipped["scaled"] is False and clipped["max_norm"] == 1.0
    assert not {"direct_step", "update_missing", "gradients_replaced", "accumulation"} & set(events)


def test_clipping_what_is_still_scaled(db, database):
    def body(model, optimizer, scaler, loss, _):
        scaler.scale(loss).backward()
        clip(model)
        scaler.step(optimizer)
        scaler.update()

    train(db, body)
    ((_, detail),) = told(database)["clip"]
    assert detail["scaled"]
    assert [text_of(line) for line in detail["called_from"][:2]] == [
        "nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "clip(model)",
    ]


def test_a_step_past_the_scaler(db, database):
    def body(model, optimizer, scaler, loss, step):
        scaler.scale(loss).backward()
        optimizer.step() if step == 2 else scaler.step(optimizer)  # past it
        scaler.update() if step != 2 else None

    train(db, body)
    ((step, detail),) = told(database)["direct_step"]
    assert (step, detail["unscaled"], detail["scale"]) == (2, False, 1024.0)
    assert text_of(detail["called_from"][0]).endswith("# past it")
    assert text_of(detail["called_from"][1]).startswith("body(")


def test_no_update(db, database):
    def body(model, optimizer, scaler, loss, step):
        scaler.scale(loss).backward()
        scaler.step(optimizer)

    train(db, body, steps=1)
    assert [step for step, _ in told(database)["update_missing"]] == [0]


def test_gradients_made_finite_and_micro_batches(db, database):
    def body(model, optimizer, _, loss, step):
        loss.backward(retain_graph=True)
        (loss * (float("inf") if step == 1 else 1.0)).backward()
        for parameter in model.parameters():
            parameter.grad.nan_to_num_(0.0, 0.0, 0.0)
        optimizer.step()

    train(db, body, scaled=False)
    events = told(database)
    assert [step for step, _ in events["gradients_replaced"]] == [1]
    assert events["accumulation"] == [
        (0, {"backwards": 2, "dtype": "float32", "sum_of_losses": 2.0})
    ]


def test_what_is_loaded_while_it_trains(db, database):
    def body(model, optimizer, _, loss, step):
        if step == 2:
            model.load_state_dict(model.state_dict())
            optimizer.load_state_dict(optimizer.state_dict())
        loss.backward()
        optimizer.step()

    train(db, body, scaled=False)
    nn.Linear(2, 2).load_state_dict(nn.Linear(2, 2).state_dict())  # nobody listens any more
    loaded = [(step, detail["what"], detail["within"]) for step, detail in told(database)["loaded"]]
    assert loaded == [(2, "model", True), (2, "optimizer", True)]
