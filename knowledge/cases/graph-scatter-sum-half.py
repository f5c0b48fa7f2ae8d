"""Messages of 5000 edges added up at one hub node with index_add_ in FP16: the sum stops at 2048.
In FP32 it is 5000.
"""

import torch

Numbers = dict[str, float | bool]


def hub(dtype: torch.dtype) -> float:
    messages = torch.ones(5000, dtype=torch.float16).to(dtype)
    nodes = torch.zeros(4, dtype=dtype)
    nodes.index_add_(0, torch.zeros(5000, dtype=torch.long), messages)
    return nodes[0].item()


def run(dtype: torch.dtype) -> Numbers:
    total = hub(dtype)
    return {
        "edges": 5000,
        "sum_at_hub": total,
        "failed": abs(total - 5000) > 1,
    }


def broken() -> Numbers:
    return run(torch.float16)


def fixed() -> Numbers:
    return run(torch.float32)
