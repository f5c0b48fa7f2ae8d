"""A finite FP16 gradient of norm 300: squared in FP16 the norm is inf, and clipping multiplies the
gradient by 0.
"""

import torch

Numbers = dict[str, float | bool]


def run(upcast: bool) -> Numbers:
    gradient = torch.full((9,), 100.0, dtype=torch.float16)
    norms = [gradient.float().norm() if upcast else gradient.norm()]
    total = torch.stack([norm**2 for norm in norms]).sum().sqrt()
    clipped = gradient.float() * (1.0 / (total.float() + 1e-6)).clamp(max=1)
    return {
        "largest_gradient": gradient.abs().max().item(),
        "true_norm": gradient.double().norm().item(),
        "total_norm": total.item(),
        "clipped_norm": clipped.norm().item(),
        "failed": clipped.norm().item() == 0,
    }


def broken() -> Numbers:
    return run(upcast=False)


def fixed() -> Numbers:
    return run(upcast=True)
