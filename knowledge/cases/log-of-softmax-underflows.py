"""Two FP16 logits 20 apart: log(softmax) is -inf, log_softmax is -20."""

import torch

Numbers = dict[str, float | bool]


def run(fused: bool) -> Numbers:
    logits = torch.tensor([0.0, 20.0], dtype=torch.float16)
    value = logits.log_softmax(-1) if fused else logits.softmax(-1).log()
    return {
        "exact_probability": logits.double().softmax(-1)[0].item(),
        "stored_probability": logits.softmax(-1)[0].item(),
        "log_probability": value[0].item(),
        "failed": not bool(torch.isfinite(value).all()),
    }


def broken() -> Numbers:
    return run(fused=False)


def fixed() -> Numbers:
    return run(fused=True)
