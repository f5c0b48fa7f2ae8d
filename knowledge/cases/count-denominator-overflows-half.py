"""A mean as sum / count with the count in FP16: more than 65504 elements make the count infinite
and the loss exactly 0, without an error. With a Python number for the count it is right.
"""

import torch

Numbers = dict[str, float | bool]

COUNT = 300 * 300


def run(count_in_half: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    weight = torch.ones((), requires_grad=True)
    error = (0.2 + 0.1 * torch.randn(COUNT, generator=generator)).abs()
    losses = (weight * error).half()
    mask = torch.ones(COUNT, dtype=torch.float16)
    if count_in_half:
        count = mask.sum()
        loss = (losses * mask).sum() / count
    else:
        count = mask.sum(dtype=torch.float32)
        loss = (losses.float() * mask.float()).sum() / count
    loss.backward()
    assert weight.grad is not None
    return {
        "elements": COUNT,
        "count": count.item(),
        "loss": loss.item(),
        "gradient": weight.grad.item(),
        "exact_loss": error.mean().item(),
        "failed": loss.item() == 0,
    }


def broken() -> Numbers:
    return run(count_in_half=True)


def fixed() -> Numbers:
    return run(count_in_half=False)
