"""clamp(max=1 - 1e-6) does nothing in BF16 (and FP16): the bound itself rounds to 1, and log1p(-1)
is -inf.
"""

import torch

Numbers = dict[str, float | bool]


def run(upcast: bool) -> Numbers:
    p = torch.tensor([0.5, 1.0], dtype=torch.bfloat16, requires_grad=True)
    guarded = (p.float() if upcast else p).clamp(max=1 - 1e-6)
    loss = torch.log1p(-guarded)
    loss.sum().backward()
    return {
        "bound_bf16": torch.tensor(1 - 1e-6, dtype=torch.bfloat16).item(),
        "bound_fp16": torch.tensor(1 - 1e-6, dtype=torch.float16).item(),
        "value": loss[1].item(),
        "gradient": p.grad[1].item(),
        "failed": not bool(torch.isfinite(loss).all() and torch.isfinite(p.grad).all()),
    }


def broken() -> Numbers:
    return run(upcast=False)


def fixed() -> Numbers:
    return run(upcast=True)
