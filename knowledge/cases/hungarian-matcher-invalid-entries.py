"""The focal cost of a DETR matcher in FP16: a confident logit has probability 1.0, 1 - p + 1e-8 is
0, and -log of it infinite; the cost holds -inf, which linear_sum_assignment refuses.
"""

import torch

Numbers = dict[str, float | bool]


def focal_cost(logits: torch.Tensor) -> torch.Tensor:
    p = logits.sigmoid()
    negative = 0.75 * p**2 * -(1 - p + 1e-8).log()
    positive = 0.25 * (1 - p) ** 2 * -(p + 1e-8).log()
    return positive - negative


def run(dtype: torch.dtype) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    logits = (4 * torch.randn(300, 20, generator=generator) - 3).half()
    cost = focal_cost(logits.to(dtype))
    # What scipy calls "invalid numeric entries": NaN and -inf. +inf is allowed there.
    invalid = torch.isnan(cost) | torch.isneginf(cost)
    return {
        "largest_logit": logits.max().item(),
        "invalid_entries": int(invalid.sum()),
        "infinite_entries": int(torch.isinf(cost).sum()),
        "lowest_finite": cost[torch.isfinite(cost)].min().item(),
        "failed": bool(invalid.any()),
    }


def broken() -> Numbers:
    return run(torch.float16)


def fixed() -> Numbers:
    return run(torch.float32)
