"""One attention head of a model with hidden size 11600, initialised with std 0.02 and with
sqrt(2 / (5 * 11600)) = 0.0059: spread of the scores, and how much of the softmax one key takes.
"""

import math

import torch

Numbers = dict[str, float | bool]

HIDDEN, HEAD, KEYS = 11600, 128, 256


def run(std: float) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(KEYS, HIDDEN, generator=generator)  # behind a LayerNorm
    query = std * torch.randn(HIDDEN, HEAD, generator=generator)
    key = std * torch.randn(HIDDEN, HEAD, generator=generator)
    q = (x @ query).requires_grad_()
    scores = q @ (x @ key).T / math.sqrt(HEAD)
    weights = scores.softmax(-1)
    return {
        "std": std,
        "std_of_q": q.std().item(),
        "std_of_scores": scores.std().item(),
        "largest_weight_percent": 100 * weights.max(-1).values.mean().item(),
        "failed": scores.std().item() > 2,
    }


def broken() -> Numbers:
    return run(0.02)


def fixed() -> Numbers:
    return run(math.sqrt(2 / (5 * HIDDEN)))
