"""log(0) and 0/0 in FP32: no half precision anywhere, and still -inf and NaN."""

import torch

Numbers = dict[str, float | bool]


def run(guarded: bool) -> Numbers:
    p = torch.tensor([0.0, 0.25, 0.75], requires_grad=True)
    q = p.clamp_min(1e-8) if guarded else p
    entropy = -(q * torch.log(q)).sum()
    entropy.backward()
    return {
        "log_of_zero": torch.log(torch.zeros(1)).item(),
        "entropy": entropy.item(),
        "gradient_nan": int(torch.isnan(p.grad).sum()),
        "failed": not bool(torch.isfinite(entropy) and torch.isfinite(p.grad).all()),
    }


def broken() -> Numbers:
    return run(guarded=False)


def fixed() -> Numbers:
    return run(guarded=True)
