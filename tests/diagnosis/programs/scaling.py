"""GradScaler and what people do around it, in FP16."""

from __future__ import annotations

import copy

import torch
from planted import WITNESSED, Label, Watch, blobs, pick, planted
from torch import nn
from torch.nn import functional


def deep(features: int, width: int, depth: int, outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Linear(features, width), nn.Tanh()]
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(width, outputs))


@planted
def autocast_and_no_scaler(watch: Watch, v: int) -> Label:
    """FP16 autocast without a scaler: the gradients of a small loss are below 6e-8, so 0."""
    torch.manual_seed(400 + v)
    model = deep(12, pick(v, 32, 48, 24), pick(v, 3, 4, 2), 4)
    with torch.no_grad():
        model[-1].weight.mul_(0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    nanny = watch(model, optimizer, trace_interval=10)
    weight = torch.randn(12, 4) * 1e-4
    for step in range(120):
        x = torch.randn(64, 12)
        concentration = (x @ weight).tanh() + 2e-4  # in mol per litre
        with nanny.step(step) as record:
            with torch.autocast("cpu", dtype=torch.float16):
                output = model(x)
            loss = functional.mse_loss(output.float() * 1e-2, concentration)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            record.log(loss=loss)
    nanny.close()
    return Label("fp16-autocast-without-scaler", None, "backward", None, "degraded")


@planted
def clipping_of_scaled_gradients(watch: Watch, v: int) -> Label:
    """clip_grad_norm_ without unscale_: the norm is that of gradients times 65536, so every update
    is 65536 times too small.
    """
    torch.manual_seed(410 + v)
    model = deep(10, pick(v, 32, 48, 64), pick(v, 1, 2, 3), 5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** pick(v, 14, 13, 12))
    nanny = watch(model, optimizer, scaler=scaler, trace_interval=pick(v, 10, 50, 10))
    data = blobs(410 + v, 10, 5)
    for step in range(120):
        x, y = next(data)
        with nanny.step(step) as record:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = functional.cross_entropy(model(x).float(), y)
            scaler.scale(loss).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            record.log(loss=loss)
    nanny.close()
    return Label("clip-before-unscale", None, "optimizer", None, "degraded")


@planted
def optimizer_step_instead_of_scaler_step(watch: Watch, v: int) -> Label:
    """optimizer.step() on gradients that are still scaled. SGD takes steps that are too large by
    the scale.
    """
    torch.manual_seed(420 + v)
    model = deep(10, pick(v, 24, 48, 32), pick(v, 1, 2, 3), 5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** pick(v, 14, 13, 12))
    nanny = watch(model, optimizer, scaler=scaler, trace_interval=pick(v, 10, 10, 1))
    data = blobs(420 + v, 10, 5)
    for step in range(60):
        x, y = next(data)
        with nanny.step(step) as record:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = functional.cross_entropy(model(x).float(), y)
            scaler.scale(loss).backward()
            optimizer.step()
            record.log(loss=loss)
    nanny.close()
    return Label(
        "optimizer-steps-on-scaled-gradients", (0, 1, WITNESSED), "optimizer", None, "broken"
    )


@planted
def scaler_not_in_the_checkpoint(watch: Watch, v: int) -> Label:
    """A resume with a new GradScaler: it begins at 65536 again, where the run had settled at a
    fraction of that, and the first steps are lost.
    """
    torch.manual_seed(430 + v)
    half = pick(v, 60, 45, 80)
    data = blobs(430 + v, 10, 5)

    def train(first: int, last: int, saved: dict[str, dict] | None) -> dict[str, dict]:
        model = deep(10, pick(v, 32, 48, 24), pick(v, 2, 1, 3), 5)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
        scaler = torch.amp.GradScaler("cpu")
        if saved:
            model.load_state_dict(saved["model"])
            optimizer.load_state_dict(saved["optimizer"])
        nanny = watch(model, optimizer, scaler=scaler, trace_interval=10)
        for step in range(first, last):
            x, y = next(data)
            with nanny.step(step) as record:
                optimizer.zero_grad()
                with torch.autocast("cpu", dtype=torch.float16):
                    loss = functional.cross_entropy(model(x).float(), y, reduction="sum") * 20
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                record.log(loss=loss)
        nanny.close()
        return copy.deepcopy({"model": model.state_dict(), "optimizer": optimizer.state_dict()})

    train(half, 2 * half, train(0, half, None))
    return Label("gradscaler-state-missing-in-checkpoint", half, "optimizer", None, "degraded")


@planted
def scale_with_a_floor_of_one(watch: Watch, v: int) -> Label:
    """Gradients beyond FP16 even at scale 1, and a loop that keeps the scale from falling further:
    every step is skipped, the loss stands still.
    """
    torch.manual_seed(440 + v)
    model = deep(6, pick(v, 32, 24, 48), pick(v, 1, 2, 3), 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** pick(v, 12, 10, 14))
    nanny = watch(model, optimizer, scaler=scaler, trace_interval=pick(v, 10, 10, 50))
    weight = torch.randn(6, 1)
    reached = 0
    for step in range(70):
        x = torch.randn(48, 6)
        turnover = 40000.0 * (x @ weight)
        with nanny.step(step) as record:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                output = model(x)
            loss = (output.float() - turnover).square().sum()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            if scaler.get_scale() <= 1.0:
                scaler.update(1.0)
                reached = reached or step
            record.log(loss=loss)
    nanny.close()
    return Label(
        "loss-scale-stuck-at-one",
        (0, reached, reached + 1),
        "backward",
        None,
        ("broken", "degraded"),
    )


@planted
def raw_sixteen_bit_sound(watch: Watch, v: int) -> Label:
    """Samples of sound as they are in the file, up to 32767: FP16 holds them and what comes of
    them, but the gradient of the first layer, which they multiply, only at a small scale. Louder
    pieces come, and the scale goes down step by step.
    """
    torch.manual_seed(450 + v)
    width = pick(v, 32, 24, 48)
    layers: list[nn.Module] = [nn.Linear(16, width, bias=False), nn.ReLU()]
    for _ in range(pick(v, 1, 2, 3)):
        layers += [nn.Linear(width, width), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(width, 4))
    with torch.no_grad():
        model[0].weight.mul_(1e-3)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    nanny = watch(model, optimizer, scaler=scaler, trace_interval=10)
    data = blobs(450 + v, 16, 4, noise=4.0)
    skipped = -1
    for step in range(160):
        x, y = next(data)
        loudness = 2.0 ** (step / 11)  # the pieces are sorted by loudness
        x = (x * loudness * 4).clamp(-32768, 32767).round()
        with nanny.step(step) as record:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = functional.cross_entropy(model(x).float(), y)
            before = scaler.get_scale()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            if scaler.get_scale() < before and skipped < 0:
                skipped = step
            record.log(loss=loss)
    nanny.close()
    assert skipped >= 0
    return Label("loss-scale-declines-on-unnormalised-data", skipped, "backward", "0", "degraded")


@planted
def gradients_without_nan(watch: Watch, v: int) -> Label:
    """A constant loss scale by hand that is too large, and gradients in which NaN and Inf are
    replaced by 0 before the step: it never breaks and hardly learns.
    """
    torch.manual_seed(460 + v)
    at = pick(v, 30, 50, 18)
    model = deep(10, pick(v, 32, 24, 48), pick(v, 1, 2, 2), 5)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    scale = 2.0**12
    nanny = watch(model, optimizer, trace_interval=pick(v, 10, 10, 1))
    data = blobs(460 + v, 10, 5)
    for step in range(at + 60):
        x, y = next(data)
        weights = torch.ones(5) if step < at else torch.tensor([1.0, 4000.0, 1.0, 1.0, 3000.0])
        with nanny.step(step) as record:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                logits = model(x)
            each = functional.cross_entropy(logits.float(), y, reduction="none")
            loss = (each * weights[y]).mean()  # rare classes count more from here on
            (loss * scale).backward()
            for parameter in model.parameters():
                parameter.grad = torch.nan_to_num(parameter.grad / scale, 0.0, 0.0, 0.0)
            optimizer.step()
            record.log(loss=loss)
    nanny.close()
    return Label("nonfinite-grads-zeroed-then-stepped", WITNESSED, "backward", None, "degraded")
