"""T5-like feed-forward block whose output projection leaves FP16's range: FP16 breaks, BF16 does
not.
"""

import torch

Numbers = dict[str, float | bool]


def run(dtype: torch.dtype) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    width, hidden = 64, 256
    x = torch.randn(8, width, generator=generator) * 20
    wi = torch.randn(hidden, width, generator=generator)
    wo = torch.randn(width, hidden, generator=generator) * 16
    exact = torch.relu(x @ wi.T) @ wo.T

    y = (torch.relu(x.to(dtype) @ wi.to(dtype).T) @ wo.to(dtype).T).float()
    # T5's norm: mean of squares in FP32, then x / rms. Where a row holds inf this is inf *
    # rsqrt(inf) = inf * 0 = NaN.
    normed = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6)
    return {
        "fp16_max": torch.finfo(torch.float16).max,
        "wo_absmax_fp32": exact.abs().max().item(),
        "wo_inf": int(torch.isinf(y).sum()),
        "norm_nan": int(torch.isnan(normed).sum()),
        "failed": not bool(torch.isfinite(normed).all()),
    }


def broken() -> Numbers:
    return run(torch.float16)


def fixed() -> Numbers:
    return run(torch.bfloat16)
