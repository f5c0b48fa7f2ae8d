"""Broken trainings: the alert, its layer, its step and its phase are exactly those of the planted
fault.
"""

from __future__ import annotations

import torch
from conftest import Mlp, batch, cross_entropy
from mpnanny import Alert, MixedPrecisionNanny, watch_model
from torch import nn


class Grow(nn.Module):
    """A linear layer whose output passes 65504 from the `at`-th call on: in FP16 it overflows
    there.
    """

    def __init__(self, width: int, at: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.calls, self.at = 0, at

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.calls >= self.at:
            with torch.no_grad():
                self.linear.weight.fill_(6e4)
                x = torch.ones_like(x)
        self.calls += 1
        return self.linear(x)


def train_fp16(db: str, at: int, steps: int, **options: object) -> list[Alert]:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(8, 16), Grow(16, at), nn.LayerNorm(16), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    heard: list[Alert] = []
    nanny = MixedPrecisionNanny(
        model, optimizer, scaler, db=db, quiet=True, on_alert=heard.append, **options
    )
    for step in range(steps):
        x, y = batch()
        with nanny.step(step) as record:
            with torch.autocast("cpu", dtype=torch.float16):
                loss = cross_entropy(model(x), y)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            record.log(loss=loss)
    nanny.close()
    return heard


def test_forward_overflow_names_the_producer_and_its_first_step(db, database):
    heard = train_fp16(db, at=17, steps=60)  # 17 is no multiple of trace_interval
    (inf,) = database().alerts(type="INF", producer=1)
    assert (inf["layer"], inf["step"], inf["phase"], inf["kind"]) == ("1.linear", 17, "forward", 1)
    assert inf["severity"] == "ERROR" and inf["value"] > 0
    file, line = inf["source"].rsplit(":", 1)
    assert file.endswith("failures_test.py")
    assert (
        "self.linear(" in open(file).read().splitlines()[int(line) - 1]
        or "self.linear" in open(file).read().splitlines()[int(line) - 1]
    )
    nan = database().alerts(type="NAN")[0]  # the LayerNorm makes NaN of it
    assert (nan["layer"], nan["step"], nan["producer"]) == ("2", 17, 0)
    loss = database().alerts(type="LOSS_NAN")[0]
    assert (loss["step"], loss["phase"], loss["producer"]) == (17, "loss", 0)
    assert min(alert["step"] for alert in database().alerts(severity="ERROR")) == 17
    assert [a.type for a in heard if a.producer and a.layer == "1.linear"] == ["INF"]
    # The numbers of the place where it broke, though step 17 is not sampled.
    stats = database().one(
        "SELECT t.* FROM tensor_stats t JOIN layer USING (layer_id)"
        " WHERE name = '1.linear' AND step = 17 AND kind = 1"
    )
    assert stats["posinf"] > 0 and stats["numel"] == 256 and stats["dtype"] == 2


def test_after_an_error_every_step_is_sampled_and_then_no_more(db, database):
    train_fp16(db, at=17, steps=60, dense_steps=10)
    dense = [row["step"] for row in database().rows("SELECT step FROM step WHERE flags & 128")]
    first = dense[0]
    assert first == 18 and dense[:10] == list(range(18, 28))
    sampled = database().rows("SELECT DISTINCT step FROM tensor_stats WHERE step BETWEEN 18 AND 27")
    assert len(sampled) == 10
    events = [row["type"] for row in database().rows("SELECT type FROM event ORDER BY rowid")]
    moves = [event for event in events if event.startswith("dense")]
    assert moves[0] == "dense_on" and "dense_off" in moves


def test_loss_scale_falls_and_collapses(db, database):
    train_fp16(db, at=15, steps=60)
    types = {alert["type"]: alert for alert in database().alerts(phase="optimizer")}
    assert types["LOSS_SCALE_DECLINE"]["step"] == 19  # the fifth fall
    assert types["LOSS_SCALE_LOW"]["value"] < 128
    collapse = types["LOSS_SCALE_COLLAPSE"]
    # 1024 is 1 after ten falls, in force from step 25; twenty steps at 1 or below end at 44.
    assert (collapse["step"], collapse["severity"]) == (44, "ERROR")
    assert types["STEP_SKIPPED"]["repeats"] > 10
    scales = [
        row["loss_scale"] for row in database().rows("SELECT loss_scale FROM step ORDER BY step")
    ]
    assert scales[15] == 1024 and scales[16] == 512 and scales[25] == 1
    skipped = database().one("SELECT count(*) AS n FROM step WHERE flags & 8 AND flags & 16")
    assert skipped["n"] == 45


class LogOfNegative(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 3)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(x)
        self.calls += 1
        return torch.log(x - 100.0) if self.calls > 6 else x


def train_fp32(model: nn.Module, steps: int, fault=None, **options) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    nanny = MixedPrecisionNanny(model, optimizer, quiet=True, **options)
    for step in range(steps):
        x, y = batch()
        with nanny.step(step) as record:
            if fault is not None:
                x, y = fault(step, x, y)
            loss = cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            record.log(loss=loss)
    nanny.close()


def test_an_origin_outside_leaf_modules_is_given_to_the_container(db, database):
    train_fp32(nn.Sequential(LogOfNegative()), 10, db=db)
    nan = database().alerts(type="NAN", producer=1)[0]
    assert (nan["layer"], nan["step"], nan["phase"]) == ("0", 6, "forward")
    assert "failures_test.py" in nan["source"]
    assert not database().alerts(type="NAN", layer_id=None, phase="data")


def test_a_broken_batch_is_data(db, database):
    def spoil(step, x, y):
        if step == 4:
            x[0, 0] = float("nan")
        return x, y

    train_fp32(Mlp(), 6, spoil, db=db)
    first = database().alerts(severity="ERROR")[0]
    assert (first["type"], first["phase"], first["step"], first["producer"]) == (
        "NAN",
        "data",
        4,
        1,
    )
    later = [a for a in database().alerts(type="NAN", producer=1) if a["step"] == 5]
    assert {a["phase"] for a in later} == {"optimizer"}  # the update wrote NaN into the weights


class Criterion(nn.Module):
    def forward(self, output: torch.Tensor, step: int) -> torch.Tensor:
        return output.square().mean() if step < 5 else (output.square().mean() * 0) / 0


def test_a_loss_function_is_the_loss_phase(db, database):
    model, criterion = nn.Linear(8, 3), Criterion()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    nanny = watch_model(model, db=db, quiet=True)
    for step in range(7):
        optimizer.zero_grad()
        criterion(model(batch()[0]), step).backward()
        optimizer.step()
    nanny.close()
    loss = database().alerts(type="LOSS_NAN")[0]
    assert (loss["step"], loss["phase"], loss["producer"]) == (5, "loss", 1)


class NormAtZero(nn.Module):
    """Finite forward, NaN backward: the derivative of the square root at 0, times 0."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.last = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x)
        return self.last(hidden + ((hidden - hidden).square().sum(-1, keepdim=True)).sqrt())


def test_a_backward_origin_names_the_last_clean_border(db, database):
    train_fp32(NormAtZero(), 3, db=db)
    alert = database().alerts(severity="ERROR")[0]
    assert (alert["type"], alert["phase"], alert["step"]) == ("NAN", "backward", 0)
    assert alert["layer"] == "first.bias" and alert["producer"] == 1
    assert database().one("SELECT flags & 7 AS f FROM step WHERE step = 0")["f"] == 4


def test_what_fp16_could_not_hold_is_information_in_a_plain_fp32_run(db, database):
    model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Linear(8, 3))
    with torch.no_grad():
        model[0].weight.fill_(4500.0)
    train_fp32(model, 1, lambda step, x, y: (torch.full_like(x, 2.0), y), db=db)
    assert {a["severity"] for a in database().alerts(type="OVERFLOW")} == {"INFO"}
