"""The sum of 65536 FP16 ones is inf, because the result is stored in FP16; summed into FP32 it is
65536.
"""

import torch

Numbers = dict[str, float | bool]


def run(dtype: torch.dtype | None) -> Numbers:
    ones = torch.ones(65536, dtype=torch.float16)
    total = ones.sum(dtype=dtype)
    counter = torch.tensor(2048.0, dtype=dtype or torch.float16)
    return {
        "elements": ones.numel(),
        "sum": total.item(),
        "counter_2048_plus_1": (counter + 1).item(),
        "failed": not bool(torch.isfinite(total)),
    }


def broken() -> Numbers:
    return run(None)


def fixed() -> Numbers:
    return run(torch.float32)
