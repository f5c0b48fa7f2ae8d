"""masked_fill with -1e9 on FP16 scores raises; torch.finfo(dtype).min does not."""

import torch

Numbers = dict[str, float | bool]


def run(fill: float) -> Numbers:
    scores = torch.zeros(2, 4, dtype=torch.float16)
    hidden = torch.tensor([[False, False, True, True]]).expand(2, 4)
    raised = False
    masked_weight = float("nan")
    try:
        weights = scores.masked_fill(hidden, fill).float().softmax(-1)
        masked_weight = weights[hidden].max().item()
    except RuntimeError:
        raised = True
    return {
        "fill": fill,
        "fp16_min": torch.finfo(torch.float16).min,
        "masked_weight": masked_weight,
        "raised": raised,
        "failed": raised,
    }


def broken() -> Numbers:
    return run(-1e9)


def fixed() -> Numbers:
    return run(torch.finfo(torch.float16).min)
