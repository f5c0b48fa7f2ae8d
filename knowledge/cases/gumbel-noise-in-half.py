"""Gumbel noise -log(-log(u + 1e-10)) with u rounded to FP16: u is exactly 1 once in 4000 draws, the
noise is infinite and the whole row NaN after softmax. Drawn in FP32 it is finite.
"""

import torch

Numbers = dict[str, float | bool]


def run(half: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(256, 1000, generator=generator).half()
    u = torch.rand(256, 1000, generator=generator)
    if half:
        noise = -torch.log(-torch.log(u.half() + 1e-10))
        y = (logits + noise).softmax(-1)
    else:
        noise = -torch.log(-torch.log(u.clamp(1e-10, 1 - 2**-24)))
        y = (logits.float() + noise).softmax(-1)
    return {
        "draws": u.numel(),
        "infinite_noise": int(torch.isposinf(noise).sum()),
        "nan_rows": int(torch.isnan(y).any(-1).sum()),
        "failed": bool(torch.isnan(y).any()),
    }


def broken() -> Numbers:
    return run(half=True)


def fixed() -> Numbers:
    return run(half=False)
