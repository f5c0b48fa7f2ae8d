"""Adam on FP16 parameters: eps 1e-8 rounds to 0, so a zero gradient gives 0/0. FP32 parameters are
fine.
"""

import torch

Numbers = dict[str, float | bool]


def run(dtype: torch.dtype) -> Numbers:
    weight = torch.nn.Parameter(torch.ones(3, dtype=dtype))
    optimizer = torch.optim.Adam([weight], lr=1e-3, eps=1e-8)
    weight.grad = torch.tensor([0.0, 1e-5, 0.5], dtype=dtype)
    optimizer.step()
    state = optimizer.state[weight]
    return {
        "eps_stored": torch.tensor(1e-8, dtype=dtype).item(),
        "second_moment": state["exp_avg_sq"][1].item(),
        "weight_nonfinite": int((~torch.isfinite(weight)).sum()),
        "failed": not bool(torch.isfinite(weight).all()),
    }


def broken() -> Numbers:
    return run(torch.float16)


def fixed() -> Numbers:
    return run(torch.float32)
