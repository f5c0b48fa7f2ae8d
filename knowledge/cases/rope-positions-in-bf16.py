"""Rotary angles whose positions are BF16: exact up to 256, then neighbours share a position."""

import torch

Numbers = dict[str, float | bool]

LENGTH, WIDTH = 4096, 128


def run(dtype: torch.dtype) -> Numbers:
    inv_freq = 1.0 / 10000 ** (torch.arange(0, WIDTH, 2).double() / WIDTH)
    positions = torch.arange(LENGTH, dtype=dtype)
    angles = positions[:, None] * inv_freq.to(dtype)
    cos = angles.cos().double()
    exact = (torch.arange(LENGTH).double()[:, None] * inv_freq).cos()
    error = (cos - exact).abs()
    return {
        "distinct_positions": len(set(positions.tolist())),
        "error_at_128": error[:129].max().item(),
        "error_at_4095": error[-1].max().item(),
        "elements_off_by_0.1_percent": 100 * (error > 0.1).double().mean().item(),
        "failed": bool(error.max() > 0.1),
    }


def broken() -> Numbers:
    return run(torch.bfloat16)


def fixed() -> Numbers:
    return run(torch.float32)
