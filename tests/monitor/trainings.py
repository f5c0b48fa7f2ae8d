"""Healthy trainings of many kinds, each the same with and without a monitor.

A training is a function of `watch`, which gets the model (and what else the user would hand over)
and answers with a nanny, or with Unwatched(). Every training reads its batches through DataLoader
workers, draws random numbers (dropout, noise) and learns something. What the FP16 kernels of a CPU
cannot do in seconds, or at all, is left out in FP16: LSTM, transposed convolutions beyond a few
channels, anything wider than 64.
"""

from __future__ import annotations

import functools
import math
import pathlib
import tempfile
import time
from collections.abc import Callable

import pytest
import torch
import trial_models as models
from conftest import Database, Mlp
from mpnanny import MixedPrecisionNanny
from torch import nn
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from trial_data import (
    image,
    loader,
    ring,
    sentence,
    sequence,
    short_vector,
    text,
    vector,
    visit,
)
from trial_loop import DTYPES, STEPS, Trained, Unwatched, Watch, classify, fit, next_token


def evaluate(step: int, model: nn.Module) -> None:
    if step % 50 == 0:
        model.eval()
        with torch.no_grad():
            model(torch.randn(32, 1, 12, 12))
        model.train()


# --- the trainings ---

# Far too much on every processor: the scaler finds its scale by skipping, as it does.
TOO_MUCH = 2.0**24


def mlp(watch: Watch, precision: str) -> Trained:
    return fit(
        watch,
        Mlp(),
        short_vector,
        classify,
        precision=precision,
        scaler={"init_scale": TOO_MUCH, "growth_interval": 80},
    )


def cnn(watch: Watch, precision: str) -> Trained:
    return fit(
        watch,
        models.Cnn(),
        image,
        classify,
        precision=precision,
        optimizers=lambda m: [torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9)],
        blocks=False,
        each_step=evaluate,
    )


def resnet(watch: Watch, precision: str) -> Trained:
    fp16 = precision == "fp16"
    return fit(
        watch,
        models.ResNet(4 if fp16 else 8),
        image,
        lambda m, x, y: functional.cross_entropy(m(x), y, label_smoothing=0.1),
        precision=precision,
        optimizers=lambda m: [
            torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
        ],
        size=4 if fp16 else 16,
        warm_up=20,
    )


def gpt(watch: Watch, precision: str) -> Trained:
    """Accumulates in BF16, checkpoints in FP32."""
    fp16 = precision == "fp16"
    return fit(
        watch,
        models.Gpt(
            width=32 if fp16 else 48,
            depth=1 if fp16 else 2,
            checkpointing=False if precision == "fp32" else None,
        ),
        text,
        next_token,
        precision=precision,
        size=4,
        clip=1.0,
        accumulate=2 if precision == "bf16" else 1,
        warm_up=30,
        blocks=precision != "bf16",
    )


def lstm(watch: Watch, precision: str) -> Trained:
    def loss_of(model: nn.Module, tokens: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        lengths, kinds = rest
        return functional.cross_entropy(model(tokens, lengths).float(), kinds)

    return fit(watch, models.Lstm(), sequence, loss_of, precision=precision, clip=0.5)


def gan(watch: Watch, precision: str) -> Trained:
    """Two optimizers that take turns, each with a loss of its own; one scaler."""
    trained, model = Trained(), models.Gan()
    makes, judges = model.generator, model.discriminator
    adam = functools.partial(torch.optim.Adam, lr=2e-3, betas=(0.5, 0.999))
    of_maker, of_judge = adam(makes.parameters()), adam(judges.parameters())
    scaler = torch.amp.GradScaler("cpu", enabled=precision == "fp16")
    cast = functools.partial(torch.autocast, "cpu", DTYPES[precision], enabled=precision != "fp32")
    bce = functional.binary_cross_entropy_with_logits
    nanny = watch(model)
    for step, (real,) in enumerate(loader(ring, STEPS, 32)):
        with nanny.step(step):
            of_judge.zero_grad()
            with cast():
                fake = makes(torch.randn(32, model.NOISE))
                right = bce(judges(real).float(), torch.ones(32, 1))
                wrong = bce(judges(fake.detach()).float(), torch.zeros(32, 1))
            scaler.scale(right + wrong).backward()
            scaler.step(of_judge)
            of_maker.zero_grad()
            with cast():
                fooled = bce(judges(fake).float(), torch.ones(32, 1))
            scaler.scale(fooled).backward()
            scaler.step(of_maker)
            scaler.update()
        trained.losses.append((right + wrong).item())
        trained.losses.append(fooled.item())
    return trained.keep(nanny, model, of_maker, of_judge)


def unet(watch: Watch, precision: str) -> Trained:
    """Learns to tell noise from image, with a moving average of the weights."""
    model = models.UNet(4 if precision == "fp16" else 8)
    averages: list[AveragedModel] = []

    def loss_of(model: nn.Module, clean: torch.Tensor, _kind: torch.Tensor) -> torch.Tensor:
        time = torch.randint(0, 1000, (len(clean),))
        noise = torch.randn_like(clean)
        kept = torch.cos(time / 1000 * math.pi / 2)[:, None, None, None]
        mixed = kept * clean + (1 - kept.square()).clamp(min=0).sqrt() * noise
        return functional.mse_loss(model(mixed, time).float(), noise)

    def average(_step: int, model: nn.Module) -> None:
        if not averages:  # a copy of the model while it is watched
            averages.append(AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.99)))
        averages[0].update_parameters(model)

    size = 4 if precision == "fp16" else 8
    trained = fit(
        watch, model, image, loss_of, precision=precision, size=size, clip=1.0, each_step=average
    )
    trained.tensors.update({f"average {n}": t for n, t in averages[0].state_dict().items()})
    return trained


def autoencoder(watch: Watch, precision: str) -> Trained:
    def loss_of(model: nn.Module, x: torch.Tensor, _kind: torch.Tensor) -> torch.Tensor:
        made, mean, spread = model(x)
        loss = functional.mse_loss(made.float(), x)
        if model.variational:
            loss = loss + 0.01 * (mean.square() + spread.exp() - 1 - spread).float().mean()
        return loss

    model = models.Autoencoder(variational=precision == "bf16")
    return fit(
        watch,
        model,
        vector,
        loss_of,
        precision=precision,
        scaler={"init_scale": TOO_MUCH},
        blocks=False,
    )


def recommender(watch: Watch, precision: str) -> Trained:
    def loss_of(model: nn.Module, *batch: torch.Tensor) -> torch.Tensor:
        user, items, clicked = batch
        return functional.binary_cross_entropy_with_logits(model(user, items).float(), clicked)

    def two(model: nn.Module) -> list[torch.optim.Optimizer]:
        sparse = [*model.users.parameters(), *model.items.parameters()]
        dense = torch.optim.AdamW(model.top.parameters(), lr=1e-2)
        return [dense, torch.optim.SparseAdam(sparse, lr=5e-2)]

    return fit(
        watch, models.Recommender(), visit, loss_of, precision=precision, optimizers=two, size=32
    )


def translator(watch: Watch, precision: str) -> Trained:
    def loss_of(model: nn.Module, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        words = model(source, target[:, :-1]).float().flatten(0, 1)
        return functional.cross_entropy(words, target[:, 1:].flatten(), ignore_index=0)

    return fit(
        watch,
        models.Translator(),
        sentence,
        loss_of,
        precision=precision,
        optimizers=lambda m: [torch.optim.Adam(m.parameters(), lr=1e-3, betas=(0.9, 0.98))],
        size=8,
        warm_up=40,
    )


def contrastive(watch: Watch, precision: str) -> Trained:
    def loss_of(model: nn.Module, x: torch.Tensor, _kinds: torch.Tensor) -> torch.Tensor:
        logits = model(x, torch.arange(4)).float()
        return functional.cross_entropy(logits, _kinds)

    return fit(
        watch,
        models.Contrastive(),
        vector,
        loss_of,
        precision=precision,
        scaler={"init_scale": TOO_MUCH},
    )


def low_rank(watch: Watch, precision: str) -> Trained:
    """Fine-tunes: most weights are frozen, and a gradient is exactly 0 in the first step."""
    return fit(
        watch,
        models.with_low_rank(models.Gpt()),
        text,
        next_token,
        precision=precision,
        optimizers=lambda m: [
            torch.optim.AdamW([p for p in m.parameters() if p.requires_grad], lr=1e-2)
        ],
        size=8,
    )


def experts(watch: Watch, precision: str) -> Trained:
    """Not every expert gets something in every step."""
    return fit(watch, models.Experts(), vector, classify, precision=precision, size=8)


TRAININGS: dict[str, Callable[[Watch], Trained]] = {
    f"{kind.__name__} {precision}": functools.partial(kind, precision=precision)
    for kind, precisions in {
        mlp: ("fp32", "fp16"),
        cnn: ("fp32", "bf16"),
        resnet: ("bf16", "fp16"),
        gpt: ("fp32", "bf16", "fp16"),
        lstm: ("fp32", "bf16"),
        gan: ("fp32", "fp16"),
        unet: ("bf16", "fp16"),
        autoencoder: ("fp16", "bf16"),
        recommender: ("fp32",),
        translator: ("bf16",),
        contrastive: ("fp16",),
        low_rank: ("bf16",),
        experts: ("fp32",),
    }.items()
    for precision in precisions
}

# Each precision, and what is unlike the others; the rest takes minutes and runs with --slow.
ALWAYS = (
    "mlp fp16",
    "cnn fp32",
    "gpt bf16",
    "gpt fp16",
    "gan fp16",
    "autoencoder fp16",
    "recommender fp32",
    "contrastive fp16",
    "experts fp32",
)
MARKED = [
    pytest.param(name, marks=[] if name in ALWAYS else pytest.mark.slow) for name in TRAININGS
]


def _train(name: str, watch: Watch) -> Trained:
    torch.manual_seed(7)
    started = time.process_time()
    trained = TRAININGS[name](watch)
    trained.seconds = time.process_time() - started
    trained.random = torch.get_rng_state()
    return trained


@functools.cache
def plain(name: str) -> Trained:
    """The training `name`, not watched."""
    return _train(name, lambda _model: Unwatched())


@functools.cache
def watched(name: str) -> Trained:
    """The same, every layer watched at every step, with everything that can be watched."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "metrics.db"
        trained = _train(
            name, lambda model: MixedPrecisionNanny(model, db=path, trace_interval=1, quiet=True)
        )
        database = Database(path)
        trained.alerts = database.alerts()
        trained.run = database.one("SELECT * FROM run")
        trained.sampled = database.one("SELECT count(*) AS n FROM step WHERE flags & 64")["n"]
        trained.kinds = {
            row["kind"] for row in database.rows("SELECT DISTINCT kind FROM tensor_stats")
        }
        database.connection.close()
    return trained
