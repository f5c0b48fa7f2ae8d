"""Queries and keys turned in BF16: tables, products and sum are rounded, and scores drift with the
position. In FP32, with one rounding at the end, a quarter of the error goes; with results kept in
FP32 all of it.
"""

import torch

Numbers = dict[str, float | bool]

LENGTH, WIDTH = 512, 128


def rotate(x: torch.Tensor, angle: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    x, cos, sin = x.to(dtype), angle.cos().to(dtype), angle.sin().to(dtype)
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def run(dtype: torch.dtype) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    # One query and one key at every position: a score depends on the distance only.
    q, k = (
        8 * torch.randn(1, WIDTH, generator=generator).bfloat16().expand(LENGTH, -1)
        for _ in range(2)
    )
    inv_freq = 1.0 / 500000 ** (torch.arange(0, WIDTH, 2).double() / WIDTH)
    angle = torch.arange(LENGTH).double()[:, None] * inv_freq

    def scores(arithmetic: torch.dtype, storage: torch.dtype) -> torch.Tensor:
        query, key = (rotate(x, angle, arithmetic).to(storage).double() for x in (q, k))
        result: torch.Tensor = query @ key.T / WIDTH**0.5
        return result

    exact = scores(torch.float64, torch.float64)
    error = (scores(dtype, torch.bfloat16) - exact).square().mean().sqrt().item()
    rounded_once = (scores(torch.float64, torch.bfloat16) - exact).square().mean().sqrt().item()
    kept = (scores(dtype, torch.float32) - exact).square().mean().sqrt().item()
    return {
        "largest_score": exact.abs().max().item(),
        "error": error,
        "error_of_one_rounding": rounded_once,
        "error_kept_in_fp32": kept,
        "factor": error / rounded_once,
        "failed": error > 1.2 * rounded_once,
    }


def broken() -> Numbers:
    return run(torch.bfloat16)


def fixed() -> Numbers:
    return run(torch.float32)
