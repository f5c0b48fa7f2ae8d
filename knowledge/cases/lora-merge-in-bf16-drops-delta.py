"""A LoRA update merged into BF16 weights: most of its elements lie below half an ulp of the weight
and are lost; merged in FP32 none is.
"""

import torch

Numbers = dict[str, float | bool]


def run(dtype: torch.dtype) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    base = (0.05 * torch.randn(256, 256, generator=generator)).bfloat16()
    a = 0.02 * torch.randn(8, 256, generator=generator)
    b = 0.002 * torch.randn(256, 8, generator=generator)
    delta = b @ a
    merged = (base.to(dtype) + delta.to(dtype)).float()
    kept = merged - base.float()
    x = torch.randn(64, 256, generator=generator)
    exact = x @ delta.t()
    error = ((x @ kept.t() - exact).norm() / exact.norm()).item()
    unchanged = 100 * (kept == 0).float().mean().item()
    return {
        "delta_rms": delta.square().mean().sqrt().item(),
        "unchanged_percent": unchanged,
        "error_of_the_update": error,
        "failed": error > 0.1,
    }


def broken() -> Numbers:
    return run(torch.bfloat16)


def fixed() -> Numbers:
    return run(torch.float32)
