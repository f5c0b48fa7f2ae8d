"""The mask cost of a matcher: losses of 121,445 points, summed by an FP16 product and divided by
the number of points afterwards. The sum is infinite; divided first, and in FP32, it is right.
"""

import torch

Numbers = dict[str, float | bool]

POINTS = 121_445


def run(half: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(16, POINTS, generator=generator) - 2  # a bad start
    masks = (torch.rand(4, POINTS, generator=generator) < 0.5).float()
    softplus = torch.nn.functional.softplus
    positive, negative = softplus(-logits), softplus(logits)
    exact = (
        positive.double() @ masks.T.double() + negative.double() @ (1 - masks).T.double()
    ) / POINTS
    if half:
        total = positive.half() @ masks.T.half() + negative.half() @ (1 - masks).T.half()
        cost = total / POINTS
    else:
        cost = (positive / POINTS) @ masks.T + (negative / POINTS) @ (1 - masks).T
    return {
        "points": POINTS,
        "exact_cost": exact.mean().item(),
        "exact_sum": (exact * POINTS).max().item(),
        "infinite": int(torch.isinf(cost).sum()),
        "entries": cost.numel(),
        "failed": bool(torch.isinf(cost).any()),
    }


def broken() -> Numbers:
    return run(half=True)


def fixed() -> Numbers:
    return run(half=False)
