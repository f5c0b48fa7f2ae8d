#!/usr/bin/env python3
"""A training step with PrecisionGuard beside one without: steps that it looks at, and steps that it
does not.

    OMP_NUM_THREADS=1 PYTHONPATH=build/release/python python bench/precision_guard.py

See bench/README.md.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from mpnanny import PrecisionGuard
from torch import nn

ROUNDS = 60


def model(width: int, layers: int) -> nn.Module:
    torch.manual_seed(0)
    parts: list[nn.Module] = []
    for _ in range(layers):
        parts += [nn.Linear(width, width), nn.LayerNorm(width), nn.GELU()]
    return nn.Sequential(*parts)


def stepper(width: int, layers: int, every: int | None) -> Callable[[], None]:
    net = model(width, layers)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
    guard = None
    if every is not None:
        guard = PrecisionGuard(net, optimizer, every=every, quiet=True)
    x = torch.randn(128, width)

    def step() -> None:
        with guard.step() if guard else torch.enable_grad():
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = net(x).float().square().mean()
            loss.backward()
            optimizer.step()

    return step


def main() -> None:
    for width, layers in ((128, 24), (768, 12)):
        kinds = {
            "plain": stepper(width, layers, None),
            "guarded, not looked at": stepper(width, layers, 10**9),
            "guarded, looked at": stepper(width, layers, 1),
        }
        for step in kinds.values():
            for _ in range(5):  # the guard looks at the first three
                step()
        times: dict[str, list[float]] = {name: [] for name in kinds}
        for _ in range(ROUNDS):
            for name, step in kinds.items():
                began = time.perf_counter()
                step()
                times[name].append(time.perf_counter() - began)
        plain = statistics.median(times["plain"])
        for name, seconds in times.items():
            middle = statistics.median(seconds)
            print(f"{layers} × {width}: {name:24} {1e3 * middle:8.2f} ms, {middle / plain:.3f} ×")


if __name__ == "__main__":
    main()
