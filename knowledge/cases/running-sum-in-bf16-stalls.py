"""The sum of a thousand losses in BF16: from some size on a further loss is under half an ulp of it
and the sum stands still, so that the average that is printed falls with every step.
"""

import torch

Numbers = dict[str, float | bool]


def run(dtype: torch.dtype) -> Numbers:
    total = torch.zeros((), dtype=dtype)
    stood_still_at = 0
    at_100 = 0.0
    for step in range(1, 1001):
        loss = torch.tensor(2.3, dtype=torch.float32)
        before = total.clone()
        total = total + loss.to(dtype)
        if bool(total == before) and stood_still_at == 0:
            stood_still_at = step
        if step == 100:
            at_100 = total.item() / 100
    average = total.item() / 1000
    return {
        "loss": 2.3,
        "average_after_100": at_100,
        "sum": total.item(),
        "stood_still_at": stood_still_at,
        "average_after_1000": average,
        "failed": abs(average - 2.3) > 0.1,
    }


def broken() -> Numbers:
    return run(torch.bfloat16)


def fixed() -> Numbers:
    return run(torch.float32)
