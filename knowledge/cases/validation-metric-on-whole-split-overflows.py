"""Predictions of a whole validation split put together in FP16: the sums of the metrics pass 65504,
so that MAE is inf and R2 NaN. In FP32 both are fine.
"""

import torch

Numbers = dict[str, float | bool]

SAMPLES = 20_000


def run(dtype: torch.dtype) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    target = 60 * torch.randn(SAMPLES, generator=generator)
    prediction = target + 6 * torch.randn(SAMPLES, generator=generator)
    p, t = prediction.half().to(dtype), target.half().to(dtype)  # the model's output is FP16
    mae = (p - t).abs().sum() / SAMPLES
    residual = (p - t).square().sum()
    spread = (t - t.mean()).square().sum()
    r2 = 1 - residual / spread
    of_batch = (p[:64] - t[:64]).abs().mean()
    return {
        "samples": SAMPLES,
        "mae": mae.item(),
        "r2": r2.item(),
        "mae_of_one_batch": of_batch.item(),
        "failed": not bool(torch.isfinite(mae) & torch.isfinite(r2)),
    }


def broken() -> Numbers:
    return run(torch.float16)


def fixed() -> Numbers:
    return run(torch.float32)
