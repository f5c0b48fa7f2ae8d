"""Adam's second moment in BF16 with beta2 = 0.999: a decay of 0.1 % a step is under half an ulp, so
it never falls after one series of large gradients, and updates stay small.
"""

import torch

Numbers = dict[str, float | bool]

STEPS, BETA2 = 1000, 0.999


def run(dtype: torch.dtype) -> Numbers:
    second = torch.zeros(1, dtype=dtype)
    after_large = 0.0
    for step in range(STEPS):
        # 100 steps with large gradients, as in a warm-up, and then small ones.
        gradient = torch.full((1,), 1.0 if step < 100 else 0.01, dtype=dtype)
        second.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)  # as torch's Adam does
        if step == 99:
            after_large = second.item()
    at_end = second.item()
    return {
        "steps": STEPS,
        "second_moment_at_100": after_large,
        "second_moment_at_end": at_end,
        "update_over_lr": 0.01 / at_end**0.5,
        "failed": at_end > 0.9 * after_large,
    }


def broken() -> Numbers:
    return run(torch.bfloat16)


def fixed() -> Numbers:
    return run(torch.float32)
