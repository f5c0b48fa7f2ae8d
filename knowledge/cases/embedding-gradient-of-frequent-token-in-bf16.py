"""One token stands 4096 times in a batch. The BF16 gradient of its row is added up one by one and
stands still at a sixteenth of the true sum; with an FP32 table it is right.
"""

import torch
from torch.nn import functional as F

Numbers = dict[str, float | bool]

TIMES = 4096


def run(dtype: torch.dtype) -> Numbers:
    table = torch.zeros(4, 8, dtype=dtype, requires_grad=True)
    tokens = torch.zeros(TIMES, dtype=torch.long)
    tokens[-1] = 1  # a rare token
    upstream = torch.full((TIMES, 8), 1 / TIMES).bfloat16()
    F.embedding(tokens, table).backward(upstream.to(dtype))
    assert table.grad is not None
    frequent, rare = table.grad[0, 0].item(), table.grad[1, 0].item()
    right = (TIMES - 1) / TIMES
    return {
        "times": TIMES,
        "gradient_of_frequent_token": frequent,
        "right": right,
        "gradient_of_rare_token_times_4096": TIMES * rare,
        "failed": abs(frequent / right - 1) > 0.01,
    }


def broken() -> Numbers:
    return run(torch.bfloat16)


def fixed() -> Numbers:
    return run(torch.float32)
