"""Positions made by arange in the dtype of the model: FP16 repeats them from 2048 on, and a causal
mask that compares them lets queries see the token after them.
"""

import torch

Numbers = dict[str, float | bool]

LENGTH = 4096


def run(dtype: torch.dtype) -> Numbers:
    positions = torch.arange(LENGTH, dtype=dtype)
    hidden = positions[None, :] > positions[:, None]
    future = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
    leaks = int((future & ~hidden).sum())
    bf16 = torch.arange(LENGTH, dtype=torch.bfloat16)
    return {
        "distinct_of_4096": positions.unique().numel(),
        "distinct_of_4096_in_bf16": bf16.unique().numel(),
        "last": positions[-1].item(),
        "visible_future_tokens": leaks,
        "failed": leaks > 0,
    }


def broken() -> Numbers:
    return run(torch.float16)


def fixed() -> Numbers:
    return run(torch.int64)
