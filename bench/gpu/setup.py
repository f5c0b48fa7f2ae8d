"""What the checks of scripts/gpu train, on a device at full size or on the CPU at a small one."""

from __future__ import annotations

import inspect
import os
import pathlib
import sqlite3
import sys
from collections.abc import Callable, Iterator
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
    """One line of a check's table."""

    what: str
    result: str
    figures: str


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


def _large_batch() -> models.Batch:
    tokens = torch.randint(0, models.VOCABULARY, (8, 513))
    return tokens[:, :-1], tokens[:, 1:].flatten()


LARGE = Subject(lambda: models.Gpt(1024, 12), _large_batch)  # 150 million parameters
LARGE_MEMORY = 16 << 30  # bytes of a device that it fits on


class Setup:
    """`device`: "cuda" or "cpu". `folder`: for databases."""

    def __init__(self, device: str, folder: str) -> None:
        self.device = device
        self.folder = folder
        self.small = device == "cpu"
        self._databases = 0

    def subjects(self, large: bool = False) -> dict[str, Subject]:
        """`large`: also a GPT that keeps a device busy."""
        if self.small:
            return {
                "gpt": _few(SUBJECTS["gpt"], lambda: models.Gpt(32, 1), 1),
                "resnet": _few(SUBJECTS["resnet"], lambda: models.ResNet(4), 2),
            }
        found = dict(SUBJECTS)
        if large and torch.cuda.get_device_properties(0).total_memory >= LARGE_MEMORY:
            found["gpt, 150 million parameters"] = LARGE
        return found

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
