"""What precision has nothing to do with: rates, schedules, resumes and data. FP32 or BF16."""

from __future__ import annotations

import copy
import math

import torch
from planted import WITNESSED, Label, Watch, blobs, pick, planted
from torch import nn
from torch.nn import functional


def mlp(features: int, width: int, depth: int, outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Linear(features, width), nn.ReLU()]
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, outputs))


@planted
def sgd_with_a_rate_that_diverges(watch: Watch, v: int) -> Label:
    """Regression with SGD at a rate that multiplies the error at every step, until it overflows; in
    layer 2 first, as it happens.
    """
    torch.manual_seed(600 + v)
    features = pick(v, 10, 12, 16)
    model = mlp(features, pick(v, 32, 48, 64), pick(v, 1, 2, 1), 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=pick(v, 0.5, 0.3, 0.4))
    nanny = watch(model, optimizer, trace_interval=pick(v, 10, 50, 1))
    weight = torch.randn(features) * 3.0
    bad = -1
    start = 0.0
    for step in range(60):
        x = torch.randn(32, features)
        with nanny.step(step) as record:
            loss = functional.mse_loss(model(x).squeeze(1), x @ weight)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            record.log(loss=loss, lr=optimizer.param_groups[0]["lr"])
        start = start or loss.item()
        if bad < 0 and not loss.item() <= 10.0 * start:
            bad = step
    nanny.close()
    return Label(
        "learning-rate-too-high-diverges", (bad, WITNESSED), None, (None, "2"), "broken", False
    )


class Token(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(30, width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
            for _ in range(depth)
        )
        self.head = nn.Linear(width, 30)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


@planted
def schedule_in_epochs_stepped_per_batch(watch: Watch, v: int) -> Label:
    """A schedule with warm restarts written for epochs and stepped per batch, with a base rate that
    nobody had ever reached: at the restart the rate is a hundred times what training was used to.
    """
    torch.manual_seed(610 + v)
    at = pick(v, 120, 90, 150)
    model = Token(pick(v, 32, 48, 32), pick(v, 1, 2, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    def rate(step: int) -> float:
        if step < at:
            return 0.5 * (1 + math.cos(math.pi * step / at)) + 0.01
        return pick(v, 150.0, 200.0, 120.0)

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    nanny = watch(model, optimizer, trace_interval=pick(v, 10, 50, 100))
    for step in range(at + 40):
        tokens = torch.randint(0, 30, (16, 8))
        with nanny.step(step) as record:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                logits = model(tokens)
            y = (tokens + 1) % 30
            loss = functional.cross_entropy(logits.float().flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            record.log(loss=loss, lr=scheduler.get_last_lr()[0])
        scheduler.step()
    nanny.close()
    return Label("lr-spike-in-schedule", (at, at + 1), None, None, "broken", False)


@planted
def missing_values_in_a_table(watch: Watch, v: int) -> Label:
    """An empty cell of a table is NaN, and is fed to the model."""
    torch.manual_seed(620 + v)
    at = pick(v, 52, 19, 77)
    model = mlp(9, pick(v, 16, 32, 64), pick(v, 1, 2, 3), 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    nanny = watch(model, optimizer, trace_interval=pick(v, 100, 10, 50))
    data = blobs(620 + v, 9, 3)
    for step in range(at + 15):
        x, y = next(data)
        if step == at:
            x[pick(v, 3, 17, 30), pick(v, 5, 0, 8)] = float("nan")  # float("") of a reader of CSV
        with nanny.step(step) as record:
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            record.log(loss=loss)
    nanny.close()
    return Label("non-finite-input-data", WITNESSED, "data", None, "broken", False)


@planted
def infinite_ratio_in_the_features(watch: Watch, v: int) -> Label:
    """A feature is a ratio, and its denominator 0 in one row: the Inf goes through FP16 autocast,
    and GradScaler loses that step only; but the row comes again in every epoch.
    """
    torch.manual_seed(630 + v)
    at = pick(v, 14, 22, 9)
    rows, batch = 32 * 25, 32
    data = blobs(630 + v, 9, 3, count=rows)
    x, y = next(data)
    numerator, denominator = x[:, pick(v, 2, 7, 4)].clone(), torch.rand(rows) + 0.5
    denominator[at * batch + 5] = 0.0
    x[:, pick(v, 2, 7, 4)] = numerator / denominator
    model = mlp(9, pick(v, 32, 24, 48), pick(v, 1, 2, 3), 3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    nanny = watch(model, optimizer, scaler=scaler, trace_interval=10)
    for step in range(100):
        part = slice(step % 25 * batch, (step % 25 + 1) * batch)
        with nanny.step(step) as record:
            with torch.autocast("cpu", dtype=torch.float16):
                loss = functional.cross_entropy(model(x[part]).float(), y[part])
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            record.log(loss=loss)
    nanny.close()
    return Label("non-finite-input-data", WITNESSED, "data", None, ("broken", "degraded"), False)


@planted
def targets_in_another_unit(watch: Watch, v: int) -> Label:
    """One batch has its targets in another unit, forty times larger: the loss spikes, and what
    was learned is gone for a while.
    """
    torch.manual_seed(640 + v)
    at = pick(v, 130, 115, 145)
    features = pick(v, 8, 12, 10)
    model = mlp(features, pick(v, 32, 48, 24), pick(v, 1, 2, 3), 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.5)
    nanny = watch(model, optimizer, trace_interval=pick(v, 10, 50, 10))
    weight = torch.randn(features) / features**0.5
    for step in range(at + 50):
        x = torch.randn(32, features)
        y = x @ weight
        if step == at:
            y = y * 40.0
        with nanny.step(step) as record:
            loss = functional.mse_loss(model(x).squeeze(1), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            record.log(loss=loss)
    nanny.close()
    return Label("outlier-batch-spikes-loss", at, None, None, "degraded", False)


@planted
def resume_with_a_new_adam(watch: Watch, v: int) -> Label:
    """A resume that loads the weights only: Adam begins without moments at the full rate, in the
    same process as after a restart of a notebook's cell, and the loss jumps.
    """
    torch.manual_seed(650 + v)
    half = pick(v, 150, 120, 130)
    width, depth = pick(v, 32, 48, 64), pick(v, 2, 1, 2)
    weight = torch.randn(16)
    weight = weight * torch.logspace(0, -3, 16)
    scales = torch.logspace(2, -2, 16)

    def train(first: int, last: int, saved: dict[str, torch.Tensor] | None) -> dict[str, object]:
        model = mlp(16, width, depth, 1)
        if saved:
            model.load_state_dict(saved)
        optimizer = torch.optim.Adam(model.parameters(), lr=pick(v, 1e-2, 1e-2, 8e-3))
        nanny = watch(model, optimizer, trace_interval=10)
        for step in range(first, last):
            z = torch.randn(64, 16)
            with nanny.step(step) as record:
                loss = functional.mse_loss(model(z * scales).squeeze(1), z @ weight)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                record.log(loss=loss)
        nanny.close()
        return copy.deepcopy(model.state_dict())

    train(half, half + 60, train(0, half, None))
    return Label(
        "resume-without-optimizer-state", (half, half + 1), "optimizer", None, "degraded", False
    )
