"""A summed heatmap loss beside a bounded cosine loss under one loss scale: what the large one
leaves of the scale is too small for the gradients of the other. Averaged, both are kept.
"""

import torch

Numbers = dict[str, float | bool]


def run(averaged: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    # Gradients of the two heads on their way back, as FP32 has them.
    heatmap = 300 * torch.randn(4096, generator=generator)
    cosine = 1e-9 * torch.randn(4096, generator=generator)
    if averaged:
        heatmap = heatmap / 20_000  # positives in the batch
    scale = 65536.0
    skipped = 0
    while not bool(torch.isfinite((heatmap * scale).half()).all()):
        scale /= 2
        skipped += 1
    kept = (cosine * scale).half()
    lost = (kept == 0).float().mean().item()
    return {
        "ratio_of_gradients": (heatmap.abs().max() / cosine.abs().max()).item(),
        "skipped": skipped,
        "loss_scale": scale,
        "lost_percent": 100 * lost,
        "failed": lost > 0.1,
    }


def broken() -> Numbers:
    return run(averaged=False)


def fixed() -> Numbers:
    return run(averaged=True)
