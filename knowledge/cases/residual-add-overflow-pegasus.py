"""Two FP16 values that fit, 40000 and 30000, whose residual sum does not."""

import torch

Numbers = dict[str, float | bool]


def run(in_fp32: bool) -> Numbers:
    residual = torch.tensor([40000.0], dtype=torch.float16)
    branch = torch.tensor([30000.0], dtype=torch.float16)
    total = residual.float() + branch.float() if in_fp32 else residual + branch
    return {
        "residual": residual.item(),
        "branch": branch.item(),
        "sum": total.item(),
        "failed": not bool(torch.isfinite(total).all()),
    }


def broken() -> Numbers:
    return run(in_fp32=False)


def fixed() -> Numbers:
    return run(in_fp32=True)
