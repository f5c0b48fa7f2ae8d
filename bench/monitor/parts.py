"""What of the monitor's cost is whose: processor time in each call of the core, over a plain step.

Usage: PYTHONPATH=build/release/python .venv/bin/python bench/monitor/parts.py [--interval 1]

Prints one JSON line a model: calls a step and per cent of a plain step's time for each function of
the core (`observe` reads inputs and activations, the others what they are called), by the clock of
the training thread. What Python itself adds round them is in overhead.py's figures only.
"""

from __future__ import annotations

import argparse
import collections
import json
import tempfile
import time
from collections.abc import Callable
from typing import Any

import mpnanny
import mpnanny.monitor.nanny
import torch
from models import SUBJECTS, Subject
from torch import nn


class Timed:
    """A core whose calls are timed."""

    def __init__(self, core: Any) -> None:
        self._core = core
        self.seconds: collections.Counter[str] = collections.Counter()
        self.calls: collections.Counter[str] = collections.Counter()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._core, name)
        if not callable(found):
            return found

        def timed(*arguments: Any, **named: Any) -> Any:
            start = time.thread_time()
            result = found(*arguments, **named)
            self.seconds[name] += time.thread_time() - start
            self.calls[name] += 1
            return result

        setattr(self, name, timed)
        return timed


def train(
    model: nn.Module, optimizer: torch.optim.Optimizer, subject: Subject, steps: int
) -> float:
    """Seconds a step."""
    start = time.thread_time()
    for _ in range(steps):
        x, y = subject.batch()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return (time.thread_time() - start) / steps


def measure(name: str, interval: int, steps: int, make: Callable[..., Any]) -> dict[str, Any]:
    subject = SUBJECTS[name]
    torch.manual_seed(0)
    model = subject.make()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    train(model, optimizer, subject, 3)
    plain = train(model, optimizer, subject, 10)
    timed: list[Timed] = []

    def recorder(*arguments: Any, **named: Any) -> Timed:
        timed.append(Timed(make(*arguments, **named)))
        return timed[0]

    mpnanny.monitor.nanny.Recorder = recorder  # type: ignore[assignment]
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            mpnanny.MixedPrecisionNanny(
                model, optimizer, trace_interval=interval, db=f"{folder}/a.db", quiet=True
            ),
        ):
            train(model, optimizer, subject, 1)  # the first step registers layers and has exponents
            core = timed[0]
            core.seconds.clear()
            core.calls.clear()
            train(model, optimizer, subject, steps)
            parts = {
                part: [round(core.calls[part] / steps, 2), round(100 * spent / steps / plain, 2)]
                for part, spent in core.seconds.most_common()
                if spent / steps / plain > 1e-4
            }
            every = round(100 * sum(core.seconds.values()) / steps / plain, 2)
    finally:
        mpnanny.monitor.nanny.Recorder = make  # type: ignore[assignment]
    return {
        "model": name,
        "trace_interval": interval,
        "step_ms": round(1e3 * plain, 2),
        "all_per_cent": every,
        "calls_and_per_cent": parts,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--interval", type=int, default=1, help="trace_interval")
    parser.add_argument("--steps", type=int, default=50, help="a whole number of 25, as exponents")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in SUBJECTS:
        line = measure(name, options.interval, options.steps, mpnanny.monitor.nanny.Recorder)
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
