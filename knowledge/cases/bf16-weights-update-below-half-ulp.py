"""AdamW with lr 6e-4 on BF16 weights at 1.0: 100 steps move nothing. With FP32 weights they move
by about 0.06.
"""

import torch

Numbers = dict[str, float | bool]


def run(dtype: torch.dtype) -> Numbers:
    weight = torch.nn.Parameter(torch.ones(768, dtype=dtype))
    optimizer = torch.optim.AdamW([weight], lr=6e-4, weight_decay=0.0)
    steps = 100
    for _ in range(steps):
        weight.grad = torch.full_like(weight, 0.01)
        optimizer.step()
    moved = int((weight != 1).sum())
    return {
        "steps": steps,
        "weights": weight.numel(),
        "moved": moved,
        "half_ulp_below_one": 2.0**-9,
        "weight": weight.float().mean().item(),
        "failed": moved == 0,
    }


def broken() -> Numbers:
    return run(torch.bfloat16)


def fixed() -> Numbers:
    return run(torch.float32)
