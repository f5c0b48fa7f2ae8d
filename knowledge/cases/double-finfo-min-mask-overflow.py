"""Two additive masks of finfo.min: their sum, or one of them plus a score of -16, is -inf in half
precision, and a row in which that happens everywhere is NaN after softmax.
"""

import torch

Numbers = dict[str, float | bool]


def run(added: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    length, padding = 8, 3
    scores = (torch.randn(length, length, generator=generator) - 20).half()
    causal = torch.ones(length, length).triu(1).bool()
    padded = (torch.arange(length) < padding).expand(length, length)
    if added:
        lowest = torch.finfo(torch.float16).min
        bias = causal.half() * lowest + padded.half() * lowest
        weights = (scores + bias).softmax(-1)
        infinite = int(torch.isinf(bias).sum())
    else:
        bias = torch.zeros(length, length)
        bias = bias.masked_fill(causal | padded, torch.finfo(torch.float32).min)
        weights = (scores.float() + bias).softmax(-1).half()
        infinite = int(torch.isinf(bias).sum())
    return {
        "infinite_in_mask": infinite,
        "nan_rows": int(torch.isnan(weights).any(-1).sum()),
        "lowest_minus_16": (bias.min() - 16).item(),
        "failed": bool(torch.isnan(weights).any()),
    }


def broken() -> Numbers:
    return run(added=True)


def fixed() -> Numbers:
    return run(added=False)
