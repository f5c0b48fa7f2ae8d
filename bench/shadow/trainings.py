"""The trainings that shadow steps are measured on: the models of bench/monitor in a precision, on a
device, with marks between the passes of a step.
"""

from __future__ import annotations

import pathlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

sys.path.append(str(pathlib.Path(__file__).parent.parent / "monitor"))
from models import SUBJECTS, Batch, Subject  # noqa: E402

DTYPES = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}
PASSES = ("forward", "backward", "optimizer")


@dataclass
class Marks:
    """Seconds of each pass, and of the processor in the whole process, over the steps so far."""

    steps: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PASSES, 0.0))
    wall: float = 0.0
    processor: float = 0.0


class Training:
    """One model in training. `make`: another model than the subject's own. `clock` must wait for
    the device where there is one.
    """

    def __init__(
        self,
        subject: Subject,
        precision: str,
        device: str = "cpu",
        make: Callable[[], nn.Module] | None = None,
        seed: int = 0,
        batches: int = 4,
        scaler: dict[str, Any] | None = None,
    ) -> None:
        torch.manual_seed(seed)
        self.device = device
        self.model = (make or subject.make)().to(device)
        self.runs: Callable[[torch.Tensor], torch.Tensor] = self.model
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.dtype = DTYPES[precision]
        kind = device.partition(":")[0]
        self.scaler = torch.amp.GradScaler(kind, enabled=precision == "fp16", **(scaler or {}))
        self.batches: list[Batch] = []
        for _ in range(batches):
            x, y = subject.batch()
            self.batches.append((x.to(device), y.to(device)))
        self.marks = Marks()
        self.losses: list[torch.Tensor] = []
        self.keep_losses = False
        self.wait: Callable[[], None] = lambda: None

    def _mark(self, began: float, name: str) -> float:
        self.wait()
        now = time.perf_counter()
        self.marks.seconds[name] += now - began
        return now

    def step(self) -> None:
        x, y = self.batches[self.marks.steps % len(self.batches)]
        began = time.perf_counter()
        kind = self.device.partition(":")[0]
        with torch.autocast(kind, self.dtype or torch.bfloat16, enabled=self.dtype is not None):
            loss = nn.functional.cross_entropy(self.runs(x), y)
        began = self._mark(began, "forward")
        self.scaler.scale(loss).backward()
        began = self._mark(began, "backward")
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        self._mark(began, "optimizer")
        self.marks.steps += 1
        if self.keep_losses:
            self.losses.append(loss.detach())

    def steps(self, count: int) -> Marks:
        """Runs so many, and tells what these alone took."""
        before, self.marks = self.marks, Marks(steps=self.marks.steps)
        self.wait()
        wall, processor = time.perf_counter(), time.process_time()
        for _ in range(count):
            self.step()
        self.wait()
        made = self.marks
        made.wall, made.processor = time.perf_counter() - wall, time.process_time() - processor
        self.marks = Marks(
            made.steps,
            {name: before.seconds[name] + made.seconds[name] for name in PASSES},
            before.wall + made.wall,
            before.processor + made.processor,
        )
        return Marks(count, made.seconds, made.wall, made.processor)


__all__ = ["DTYPES", "PASSES", "SUBJECTS", "Marks", "Subject", "Training"]
