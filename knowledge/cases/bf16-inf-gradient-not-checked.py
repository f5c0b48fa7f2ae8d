"""One infinite gradient under AdamW: without a check the weight and the optimizer's state are lost
for good.
"""

import torch

Numbers = dict[str, float | bool]


def run(checked: bool) -> Numbers:
    weight = torch.nn.Parameter(torch.ones(4))
    optimizer = torch.optim.AdamW([weight], lr=1e-3)
    skipped = 0
    nan_at_once = 0
    for step in range(12):
        weight.grad = torch.full((4,), 0.1)
        if step == 1:
            weight.grad[2] = float("inf")
        if checked and not bool(torch.isfinite(weight.grad.norm())):
            skipped += 1
            continue
        optimizer.step()
        if step == 1:
            nan_at_once = int(torch.isnan(weight).sum())
    return {
        "skipped": skipped,
        "nan_at_once": nan_at_once,
        "nan_after_ten_more": int(torch.isnan(weight).sum()),
        "failed": not bool(torch.isfinite(weight).all()),
    }


def broken() -> Numbers:
    return run(checked=False)


def fixed() -> Numbers:
    return run(checked=True)
