"""q @ k^T of about 3e5 is inf in FP16 before it is scaled; scaling q first keeps it in range."""

import torch

Numbers = dict[str, float | bool]


def run(scale_first: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    head = 64
    direction = torch.randn(head, generator=generator).sign()
    q = (direction * 70 + torch.randn(4, head, generator=generator)).half()
    k = (direction * 70 + torch.randn(4, head, generator=generator)).half()
    scale = head**-0.5
    exact = q.double() @ k.double().T
    scores = (q * scale) @ k.T if scale_first else (q @ k.T) * scale
    weights = scores.softmax(-1)
    return {
        "qk_absmax": exact.abs().max().item(),
        "scaled_absmax": (exact * scale).abs().max().item(),
        "fp16_max": torch.finfo(torch.float16).max,
        "scores_inf": int(torch.isinf(scores).sum()),
        "weights_nan": int(torch.isnan(weights).sum()),
        "failed": not bool(torch.isfinite(weights).all()),
    }


def broken() -> Numbers:
    return run(scale_first=False)


def fixed() -> Numbers:
    return run(scale_first=True)
