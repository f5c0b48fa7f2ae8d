"""Gradients of 8 and of 512 workers, summed in FP16 and divided afterwards: every one of them fits,
the sum of 512 does not. Divided by the root before and after it does.
"""

import math

import torch

Numbers = dict[str, float | bool]


def reduce(gradients: torch.Tensor, before: float) -> torch.Tensor:
    """A sum over workers in FP16, as a ring does it, with a division before and after."""
    workers = len(gradients)
    total = torch.zeros_like(gradients[0], dtype=torch.float16)
    for gradient in gradients:
        total = total + (gradient / before).half()
    return total.float() / (workers / before)


def run(divided_before: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    # Multiplied by a loss scale that leaves them room on one worker.
    gradients = 300 * (1 + 0.1 * torch.randn(512, 1000, generator=generator))

    def reduced(workers: int) -> torch.Tensor:
        return reduce(gradients[:workers], math.sqrt(workers) if divided_before else 1.0)

    few, many = reduced(8), reduced(512)
    return {
        "largest_of_one_worker": gradients.abs().max().item(),
        "inf_with_8": int(torch.isinf(few).sum()),
        "inf_with_512": int(torch.isinf(many).sum()),
        "elements": 1000,
        "mean_with_512": many.mean().item(),
        "failed": bool(torch.isinf(many).any()),
    }


def broken() -> Numbers:
    return run(divided_before=False)


def fixed() -> Numbers:
    return run(divided_before=True)
