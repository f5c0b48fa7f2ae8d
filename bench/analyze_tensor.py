#!/usr/bin/env python3
"""analyze_tensor beside what numpy and torch take for one format's counts and errors.

    OMP_NUM_THREADS=1 PYTHONPATH=build/release/python python bench/analyze_tensor.py

See bench/README.md.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from mpnanny import _core

NUMEL = 1 << 22  # FP32: 16 MB
ROUNDS = 5


def with_torch(x: torch.Tensor, dtype: torch.dtype) -> tuple[Any, ...]:
    wide = x.double()
    low = x.to(dtype).double()
    fits = low.isfinite()
    error = ((low - wide).abs() / wide.abs())[fits]
    top = error.kthvalue(int(0.99 * len(error))).values
    lost = (low - wide)[fits].square().sum()
    return (low == 0).sum(), (~fits).sum(), error.mean(), top, error.max(), lost


def with_numpy(x: np.ndarray, dtype: Any) -> tuple[Any, ...]:
    wide = x.astype(np.float64)
    low = x.astype(dtype).astype(np.float64)
    fits = np.isfinite(low)
    error = np.abs(low - wide)[fits] / np.abs(wide)[fits]
    lost = ((low - wide)[fits] ** 2).sum()
    top = np.percentile(error, 99)
    return (low == 0).sum(), (~fits).sum(), error.mean(), top, error.max(), lost


def rate(run: Callable[[], Any]) -> float:
    """GB of the tensor for each second of processor time."""
    run()
    times = []
    for _ in range(ROUNDS):
        began = time.process_time()
        run()
        times.append(time.process_time() - began)
    return NUMEL * 4 / statistics.median(times) * 1e-9


def main() -> None:
    torch.manual_seed(0)
    x = torch.randn(NUMEL)
    held = x.numpy()
    print(f"{'format':8} {'mpnanny':>9} {'torch':>9} {'numpy':>9}   GB/s of FP32, 16 MB")
    for name, dtype, of_numpy in (
        ("fp16", torch.float16, np.float16),
        ("bf16", torch.bfloat16, None),
        ("e4m3", torch.float8_e4m3fn, None),
    ):
        ours = rate(lambda name=name: _core.format_loss(x, name, 0))
        by_torch = rate(lambda dtype=dtype: with_torch(x, dtype))
        by_numpy = "" if of_numpy is None else f"{rate(lambda: with_numpy(held, np.float16)):9.3f}"
        print(f"{name:8} {ours:9.3f} {by_torch:9.3f} {by_numpy:>9}")
    print(f"format_errors (sampled, five formats): {rate(lambda: _core.format_errors(x)):.2f} GB/s")


if __name__ == "__main__":
    main()
