"""Trainings with nothing wrong, some of which look as if there were."""

from __future__ import annotations

import math

import torch
from planted import HEALTHY, Label, Watch, blobs, pick, planted
from torch import nn
from torch.nn import functional


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(functional.gelu(self.up(self.norm(x))))


def network(features: int, width: int, depth: int, outputs: int) -> nn.Sequential:
    blocks = [Residual(width) for _ in range(depth)]
    return nn.Sequential(nn.Linear(features, width), *blocks, nn.Linear(width, outputs))


@planted
def healthy_classifier(watch: Watch, v: int) -> Label:
    """FP32 and defaults, nothing logged."""
    torch.manual_seed(800 + v)
    model = network(10, pick(v, 32, 48, 24), pick(v, 1, 2, 3), 5)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    nanny = watch(model)
    data = blobs(800 + v, 10, 5)
    for step in range(250):
        x, y = next(data)
        with nanny.step(step):
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    nanny.close()
    return HEALTHY


@planted
def healthy_scaler_that_looks_for_its_scale(watch: Watch, v: int) -> Label:
    """FP16 and GradScaler's defaults: the first steps overflow and are skipped, and one step each
    time that the scale has grown.
    """
    torch.manual_seed(810 + v)
    model = network(10, pick(v, 32, 24, 48), pick(v, 2, 1, 3), 5)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler(
        "cpu", init_scale=2.0 ** pick(v, 20, 22, 18), growth_interval=pick(v, 60, 50, 70)
    )
    nanny = watch(model, optimizer, scaler=scaler, trace_interval=pick(v, 10, 50, 10))
    data = blobs(810 + v, 10, 5)
    for step in range(200):
        x, y = next(data)
        with nanny.step(step) as record:
            with torch.autocast("cpu", dtype=torch.float16):
                loss = functional.cross_entropy(model(x).float(), y)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            record.log(loss=loss)
    nanny.close()
    return HEALTHY


@planted
def healthy_transformer_with_masks(watch: Watch, v: int) -> Label:
    """BF16, a causal mask of -Inf as it should be, warm-up and cosine, dropout."""
    torch.manual_seed(820 + v)
    width = pick(v, 32, 48, 32)
    layer = nn.TransformerEncoderLayer(
        width, 4, 2 * width, dropout=0.1, batch_first=True, norm_first=True
    )
    model = nn.ModuleDict(
        {
            "embed": nn.Embedding(30, width),
            "encode": nn.TransformerEncoder(layer, pick(v, 2, 1, 3), enable_nested_tensor=False),
            "head": nn.Linear(width, 30),
        }
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda s: min(1.0, (s + 1) / 20) * (0.5 + 0.5 * math.cos(math.pi * s / 180)),
    )
    nanny = watch(model, optimizer, trace_interval=pick(v, 10, 50, 100))
    causal = nn.Transformer.generate_square_subsequent_mask(9)
    for step in range(160):
        start = torch.randint(0, 30, (16, 1))
        tokens = (start + torch.arange(10) * 3) % 30
        with nanny.step(step) as record:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                hidden = model["encode"](model["embed"](tokens[:, :-1]), mask=causal)
                logits = model["head"](hidden)
            loss = functional.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            record.log(loss=loss, lr=scheduler.get_last_lr()[0])
        scheduler.step()
    nanny.close()
    return HEALTHY


@planted
def healthy_recurrent_network_with_clipping(watch: Watch, v: int) -> Label:
    """An LSTM in FP32 whose norm of gradients jumps, as it does, and is clipped."""
    torch.manual_seed(830 + v)
    width = pick(v, 32, 24, 48)
    lstm, head = nn.LSTM(4, width, batch_first=True), nn.Linear(width, 1)
    model = nn.ModuleDict({"lstm": lstm, "head": head})
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    nanny = watch(model, optimizer, trace_interval=pick(v, 10, 100, 50))
    for step in range(150):
        x = torch.randn(16, 20, 4)
        with nanny.step(step) as record:
            output = head(lstm(x)[0][:, -1]).squeeze(1)
            loss = functional.mse_loss(output, x[:, -3:, 0].sum(1))
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            record.log(loss=loss)
    nanny.close()
    return HEALTHY


@planted
def healthy_noisy_small_batches(watch: Watch, v: int) -> Label:
    """Batches of 4 and labels of which a tenth is wrong: a loss that jumps as it comes down."""
    torch.manual_seed(840 + v)
    model = network(12, pick(v, 32, 24, 48), pick(v, 1, 2, 2), 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    nanny = watch(model, optimizer, trace_interval=pick(v, 10, 25, 50))
    data = blobs(840 + v, 12, 6, noise=0.8, count=4)
    for step in range(300):
        x, y = next(data)
        y = torch.where(torch.rand(4) < 0.1, torch.randint(0, 6, (4,)), y)
        with nanny.step(step) as record:
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            record.log(loss=loss)
    nanny.close()
    return HEALTHY


@planted
def healthy_fine_tuning_of_a_head(watch: Watch, v: int) -> Label:
    """A frozen body, a new head, BF16, and gradients accumulated over four batches."""
    torch.manual_seed(850 + v)
    body, head = network(10, pick(v, 32, 48, 24), pick(v, 3, 2, 1), 16), nn.Linear(16, 4)
    body.requires_grad_(False)
    model = nn.Sequential(body, head)
    optimizer = torch.optim.AdamW(head.parameters(), lr=2e-2)
    nanny = watch(model, optimizer, trace_interval=10)
    data = blobs(850 + v, 10, 4)
    for step in range(120):
        with nanny.step(step) as record:
            total = 0.0
            for _ in range(4):
                x, y = next(data)
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    loss = functional.cross_entropy(model(x).float(), y) / 4
                loss.backward()
                total += loss.item()
            optimizer.step()
            optimizer.zero_grad()
            record.log(loss=total)
    nanny.close()
    return HEALTHY


@planted
def healthy_convolutions(watch: Watch, v: int) -> Label:
    """Convolutions and batch norm in BF16, evaluated now and then, with a rate in steps."""
    torch.manual_seed(860 + v)
    channels = pick(v, 8, 12, 16)
    layers: list[nn.Module] = []
    for index in range(pick(v, 2, 1, 3)):
        layers += [
            nn.Conv2d(1 if index == 0 else channels, channels, 3, padding=1),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
        ]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten())
    model.append(nn.Linear(4 * channels, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 60, 0.3)
    nanny = watch(model, optimizer, trace_interval=pick(v, 50, 10, 10))
    patterns = torch.randn(4, 1, 8, 8)
    for step in range(150):
        y = torch.randint(0, 4, (16,))
        x = patterns[y] + 0.7 * torch.randn(16, 1, 8, 8)
        with nanny.step(step) as record:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = functional.cross_entropy(model(x).float(), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            record.log(loss=loss)
        scheduler.step()
        if step % 50 == 49:
            model.eval()
            with torch.no_grad():
                model(x)
            model.train()
    nanny.close()
    return HEALTHY
