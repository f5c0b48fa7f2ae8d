"""A softmax whose sum of exponentials is a running sum in BF16: it stops at 256, whatever the
length of the row. With an FP32 sum the row adds up to 1.
"""

import torch

Numbers = dict[str, float | bool]

LENGTH = 512


def run(accumulator: torch.dtype) -> Numbers:
    x = torch.zeros(LENGTH, dtype=torch.bfloat16)
    e = (x - x.max()).exp()
    total = torch.zeros((), dtype=accumulator)
    for value in e:
        total = total + value.to(accumulator)
    y = (e.to(accumulator) / total).to(torch.bfloat16)
    torch_softmax = x.softmax(-1)
    return {
        "row_length": LENGTH,
        "sum_of_exponentials": total.item(),
        "probability": y[0].item(),
        "sum_of_row": y.float().sum().item(),
        "probability_by_torch": torch_softmax[0].item(),
        "failed": abs(y.float().sum().item() - 1) > 0.01,
    }


def broken() -> Numbers:
    return run(torch.bfloat16)


def fixed() -> Numbers:
    return run(torch.float32)
