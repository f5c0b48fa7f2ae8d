#!/usr/bin/env python3
"""What the figures cost that ranks are compared by: one pass beside the statistics of a sample, of
tensors of one core. See bench/README.md.

Usage: bench/rank_figures.py [--rounds 7]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from mpnanny import _core

SIZES = {"16 KB": 1 << 12, "512 KB": 1 << 17, "64 MB": 1 << 24}


def seconds(call: Callable[[], object], elements: int) -> float:
    """The median of a call, in nanoseconds an element."""
    repeats = max(1, (1 << 22) // elements)
    began = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - began) / repeats / elements * 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    print("FP32, ns an element: figures of ranks, statistics of a sample, torch's norm")
    for name, elements in SIZES.items():
        tensor = torch.randn(elements, generator=torch.Generator().manual_seed(1))
        calls: list[Callable[[], object]] = [
            lambda tensor=tensor: _core.rank_figures(tensor, 0),
            lambda tensor=tensor: _core.grid(tensor),
            lambda tensor=tensor: tensor.norm(),
        ]
        taken: list[list[float]] = [[] for _ in calls]
        for _ in range(rounds):
            for at, call in enumerate(calls):
                taken[at].append(seconds(call, elements))
        print(f"{name:>8}", *(f"{statistics.median(each):8.3f}" for each in taken))


if __name__ == "__main__":
    main()
