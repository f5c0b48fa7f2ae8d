"""Normalisations in FP16: by hand, and with running statistics."""

from __future__ import annotations

import torch
from planted import WITNESSED, Label, Watch, blobs, pick, planted
from torch import nn
from torch.nn import functional


class HandNorm(nn.Module):
    """RMSNorm in the dtype that it gets."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean_square = (x * x).mean(-1, keepdim=True)
        return x * torch.rsqrt(mean_square + self.eps) * self.weight.to(x.dtype)


class Sensors(nn.Module):
    """Normalises first, so that the unit of its features does not matter."""

    def __init__(self, width: int, depth: int, eps: float) -> None:
        super().__init__()
        self.enter = nn.Linear(8, width, bias=False)
        self.norm = HandNorm(width, eps)
        self.body = nn.Sequential(
            *[nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(depth)]
        )
        self.head = nn.Linear(width, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.norm(self.enter(x))))


def train_sensors(watch: Watch, v: int, at: int, factor: float, eps: float) -> None:
    """From step `at` on the files of another sensor follow, in another unit."""
    model = Sensors(pick(v, 32, 48, 24), pick(v, 1, 2, 3), eps)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    nanny = watch(model, optimizer, scaler=scaler, trace_interval=10)
    data = blobs(300 + v, 8, 5, noise=0.5)
    for step in range(at + 40):
        x, y = next(data)
        if step >= at:
            x = x * factor
        with nanny.step(step) as record:
            with torch.autocast("cpu", dtype=torch.float16):
                logits = model(x)
            loss = functional.cross_entropy(logits.float(), y)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            record.log(loss=loss)
    nanny.close()


@planted
def squares_of_millivolts(watch: Watch, v: int) -> Label:
    """x * x is Inf in FP16 above 255, its reciprocal root 0, and so is the norm's output."""
    torch.manual_seed(300 + v)
    at = pick(v, 60, 35, 82)
    train_sensors(watch, v, at, 2000.0, 1e-6)
    return Label("hand-written-rmsnorm-squares-overflow", at, "forward", "norm", "degraded")


@planted
def squares_of_kilovolts(watch: Watch, v: int) -> Label:
    """x * x is 0 in FP16 below 2e-4, and so is an eps of 1e-8: x / 0."""
    torch.manual_seed(310 + v)
    at = pick(v, 44, 15, 63)
    train_sensors(watch, v, at, 3e-5, 1e-8)
    return Label("fp16-norm-intermediate-underflow", WITNESSED, "forward", "norm", "broken")


class Normalised(nn.Module):
    def __init__(self, features: int, width: int, depth: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for index in range(depth):
            layers += [
                nn.Linear(features if index == 0 else width, width),
                nn.BatchNorm1d(width),
                nn.ReLU(),
            ]
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(width, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x))


@planted
def running_statistics_of_a_skipped_step(watch: Watch, v: int) -> Label:
    """One batch overflows; GradScaler skips its step, but the running mean has become NaN, and
    every evaluation after it with it, while training goes on as if nothing had been.
    """
    torch.manual_seed(320 + v)
    at = pick(v, 47, 31, 74)
    model = Normalised(10, pick(v, 32, 24, 48), pick(v, 1, 2, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    nanny = watch(model, optimizer, scaler=scaler, trace_interval=pick(v, 10, 1, 10))
    data = blobs(320 + v, 10, 4)
    for step in range(at + 60):
        x, y = next(data)
        if step == at:
            x[6] *= 1e5  # a reading in micrometres
        with nanny.step(step) as record:
            with torch.autocast("cpu", dtype=torch.float16):
                loss = functional.cross_entropy(model(x).float(), y)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            record.log(loss=loss)
        if step % 20 == 19:
            model.eval()
            with torch.no_grad():
                model(next(data)[0])
            model.train()
    nanny.close()
    return Label(
        "batchnorm-running-stats-poisoned-by-skipped-step",
        WITNESSED,
        "forward",
        ("body.0", "body.1"),
        "broken",
    )
