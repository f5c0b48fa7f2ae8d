"""What the checks of scripts/gpu train, on a device at full size or on the CPU at a small one."""

from __future__ import annotations

import gc
import inspect
import json
import os
import pathlib
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import mpnanny
import torch
from torch import nn

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "shadow"))
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "monitor"))
import models  # noqa: E402
from trainings import SUBJECTS, Subject, Training  # noqa: E402

PASS, FAIL, SKIPPED = "pass", "fail", "skipped"
PRECISIONS = ("fp16", "bf16")


@dataclass(frozen=True)
class Row:
    """One line of a check's table. `short`: the figure that its goal is about."""

    what: str
    result: str
    figures: str
    short: str = ""


Rows = Iterator[Row]


def verdict(good: bool) -> str:
    return PASS if good else FAIL


def some(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _few(subject: Subject, make: Callable[[], nn.Module], images: int) -> Subject:
    def batch() -> models.Batch:
        x, y = subject.batch()
        return x[:images], y[: images * (len(y) // len(x))]

    return Subject(make, batch)


# Sizes of models that keep a device busy, the smallest first.
LARGE_STEP = 0.1  # seconds that a step of theirs takes at least
GPT_SIZES = (  # width, blocks, texts of 512 tokens
    (1024, 12, 8),
    (1280, 24, 8),
    (1536, 32, 12),
    (2048, 32, 16),
    (2048, 40, 32),
)
RESNET_SIZES = ((64, 512), (128, 512), (128, 2048), (256, 2048), (384, 2048))  # width, images


def _large_gpt(width: int, blocks: int, texts: int) -> Subject:
    def batch() -> models.Batch:
        tokens = torch.randint(0, models.VOCABULARY, (texts, 513))
        return tokens[:, :-1], tokens[:, 1:].flatten()

    return Subject(lambda: models.Gpt(width, blocks), batch)


def _large_resnet(width: int, images: int) -> Subject:
    def batch() -> models.Batch:
        return torch.randn(images, 3, 32, 32), torch.randint(0, 10, (images,))

    return Subject(lambda: models.ResNet(width), batch)


class Setup:
    """`device`: "cuda" or "cpu". `folder`: for databases."""

    def __init__(self, device: str, folder: str) -> None:
        self.device = device
        self.folder = folder
        self.small = device == "cpu"
        self._databases = 0

    def subjects(self, large: bool = False) -> dict[str, Subject]:
        """`large`: also a GPT and a ResNet that keep a device busy, of a size that was found by
        measuring.
        """
        if self.small:
            return {
                "gpt": _few(SUBJECTS["gpt"], lambda: models.Gpt(32, 1), 1),
                "resnet": _few(SUBJECTS["resnet"], lambda: models.ResNet(4), 2),
            }
        found = {}
        if large:
            for at, (name, make, sizes) in enumerate(
                (("gpt", _large_gpt, GPT_SIZES), ("resnet", _large_resnet, RESNET_SIZES))
            ):
                subject = make(*sizes[self._sizes()[at]])
                size = " x ".join(str(each) for each in sizes[self._sizes()[at]])
                found[f"large {name} ({size})"] = subject
        return {**found, **SUBJECTS}

    def precisions(self, subject: str) -> tuple[str, ...]:
        """Large ones take long."""
        return ("bf16",) if subject.startswith("large") else PRECISIONS

    def _sizes(self) -> list[int]:
        """Of the large models, measured once a run: the checks are processes of their own."""
        kept = pathlib.Path(os.environ.get("MPNANNY_GPU_SIZES") or f"{self.folder}/sizes.json")
        if kept.exists():
            sizes: list[int] = json.loads(kept.read_text())
            return sizes
        sizes = [self._grown(_large_gpt, GPT_SIZES), self._grown(_large_resnet, RESNET_SIZES)]
        kept.write_text(json.dumps(sizes))
        return sizes

    def _grown(self, make: Callable[..., Subject], sizes: Sequence[tuple[int, ...]]) -> int:
        """The first size whose step takes long enough, or the last that a third of the device
        holds: a watched copy, an unwatched one and the references lie there together.
        """
        room = torch.cuda.get_device_properties(0).total_memory / 3
        for at, size in enumerate(sizes):
            self.forget()
            torch.cuda.reset_peak_memory_stats()
            try:
                training = self.training(make(*size), "bf16", batches=1)
                training.steps(3)
                seconds = training.steps(3).wall / 3
            except torch.cuda.OutOfMemoryError:
                return max(0, at - 1)
            finally:
                training = None
            if torch.cuda.max_memory_allocated() > room:
                return max(0, at - 1)
            if seconds >= LARGE_STEP:
                return at
        return len(sizes) - 1

    def forget(self) -> None:
        """What a model that is gone has left on the device."""
        gc.collect()
        if self.device == "cuda":
            torch.cuda.empty_cache()

    def tiny(self) -> dict[str, Subject]:
        """So little data that a step is the host's work alone."""
        if self.small:
            return self.subjects()
        return {
            "gpt of 1 text": _few(SUBJECTS["gpt"], models.Gpt, 1),
            "resnet of 2 images": _few(SUBJECTS["resnet"], models.ResNet, 2),
        }

    def subjects_to_compile(self) -> dict[str, Subject]:
        """Small enough to be compiled several times."""
        if self.small:
            return self.subjects()
        return {"gpt of 2 blocks": Subject(lambda: models.Gpt(256, 2), SUBJECTS["gpt"].batch)}

    def training(self, subject: Subject, precision: str, **options: Any) -> Training:
        made = Training(subject, precision, self.device, **options)
        made.wait = self.wait
        return made

    def wait(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()

    def database(self) -> str:
        self._databases += 1
        return os.path.join(self.folder, f"{self._databases}.db")

    def watch(self, training: Training, **options: Any) -> mpnanny.MixedPrecisionNanny:
        options.setdefault("db", self.database())
        return mpnanny.MixedPrecisionNanny(
            training.model, training.optimizer, training.scaler, quiet=True, **options
        )


def rows_of(path: str, sql: str) -> list[dict[str, Any]]:
    """Of a finished run's database."""
    connection = sqlite3.connect(path)
    connection.row_factory = sqlite3.Row
    try:
        return [dict(row) for row in connection.execute(sql)]
    finally:
        connection.close()


class Planted(nn.Module):
    """Squares activations of a few hundred: FP16 overflows at one line, from step `at` on."""

    def __init__(self, at: int, width: int = 64) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(width, width), nn.Linear(width, 10)
        self.steps, self._at = 0, at

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.enter(x)
        factor = 400.0 if self.steps >= self._at else 1.0
        self.steps += 1
        grown = hidden * factor
        squared = grown * grown  # the overflow
        return self.leave(squared.sqrt())

    @staticmethod
    def line() -> str:
        lines, first = inspect.getsourcelines(Planted)
        at = next(n for n, line in enumerate(lines) if "the overflow" in line)
        return f"{os.path.basename(__file__)}:{first + at}"

    @staticmethod
    def batch() -> models.Batch:
        return torch.randn(32, 64) * 4, torch.randint(0, 10, (32,))
