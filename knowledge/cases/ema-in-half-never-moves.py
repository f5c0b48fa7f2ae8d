"""An average kept in BF16 with decay 0.9999 never leaves 1.0 although the weights stand at 1.5; in
FP32 it follows.
"""

import torch

Numbers = dict[str, float | bool]


def run(dtype: torch.dtype) -> Numbers:
    weight = torch.full((1000,), 1.5)
    average = torch.ones(1000, dtype=dtype)
    steps = 5000
    for _ in range(steps):
        average.lerp_(weight.to(dtype), 1e-4)
    return {
        "steps": steps,
        "increment": 1e-4 * 0.5,
        "half_ulp_bf16": 2.0**-8,
        "average": average.float().mean().item(),
        "failed": average.float().mean().item() < 1.01,
    }


def broken() -> Numbers:
    return run(torch.bfloat16)


def fixed() -> Numbers:
    return run(torch.float32)
