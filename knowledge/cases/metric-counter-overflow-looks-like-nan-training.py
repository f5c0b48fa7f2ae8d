"""True positives, false positives and false negatives of 64 volumes, counted in FP16 and summed:
the sum is inf, Dice becomes 0 and then NaN, while the counts themselves are harmless.
"""

import torch

Numbers = dict[str, float | bool]


def dice(dtype: torch.dtype, volumes: int) -> tuple[float, float]:
    generator = torch.Generator().manual_seed(0)
    tp = torch.zeros(volumes, dtype=dtype)
    fp = torch.zeros(volumes, dtype=dtype)
    fn = torch.zeros(volumes, dtype=dtype)
    for i in range(volumes):
        truth = torch.rand(16, 16, 16, generator=generator) < 0.5
        wrong = torch.rand(16, 16, 16, generator=generator) < 0.1
        said = truth ^ wrong
        tp[i] = (said & truth).sum()
        fp[i] = (said & ~truth).sum()
        fn[i] = (~said & truth).sum()
    hits = tp.sum()
    return (2 * hits / (2 * hits + fp.sum() + fn.sum())).item(), hits.item()


def run(dtype: torch.dtype) -> Numbers:
    few, hits = dice(dtype, 12)
    middle, _ = dice(dtype, 17)
    many, total = dice(dtype, 64)
    return {
        "hits_12_volumes": hits,
        "dice_12_volumes": few,
        "dice_17_volumes": middle,
        "hits_64_volumes": total,
        "dice_64_volumes": many,
        "failed": not abs(many - 0.9) < 0.05,
    }


def broken() -> Numbers:
    return run(torch.float16)


def fixed() -> Numbers:
    return run(torch.int64)
