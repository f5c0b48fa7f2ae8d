"""Adam's second moment in 8 bits with one scale for a block of an embedding: next to a frequent
token the moment of a rare one is stored as 0, and its update is divided by eps alone.
"""

import torch

Numbers = dict[str, float | bool]

# Emulated: 0 and 255 steps over seven decades below the largest value of the block.
CODES = torch.cat([torch.zeros(1), torch.logspace(-7, 0, 255)])


def to_8_bits(x: torch.Tensor) -> torch.Tensor:
    largest = x.abs().max().clamp(min=1e-30)
    share = x.abs() / largest
    above = torch.bucketize(share, CODES).clamp(1, 255)
    low, high = CODES[above - 1], CODES[above]
    return torch.where(share - low < high - share, low, high) * largest * x.sign()


def run(eight_bits: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    lr, beta1, beta2, eps = 1e-3, 0.9, 0.95, 1e-8
    rows, width = 32, 8  # one block of 256 elements
    embedding = 0.02 * torch.randn(rows, width, generator=generator)
    start = embedding.clone()
    m, v = torch.zeros_like(embedding), torch.zeros_like(embedding)
    largest = 0.0
    for step in range(1, 51):
        gradient = 1e-5 * torch.randn(rows, width, generator=generator)
        gradient[0] = torch.randn(width, generator=generator)  # a token that is in every batch
        m = beta1 * m + (1 - beta1) * gradient
        v = beta2 * v + (1 - beta2) * gradient.square()
        if eight_bits:
            m, v = to_8_bits(m), to_8_bits(v)
        update = lr * (m / (1 - beta1**step)) / ((v / (1 - beta2**step)).sqrt() + eps)
        largest = max(largest, update.abs().max().item())
        embedding -= update
    return {
        "second_moments_zero_percent": 100 * (v == 0).float().mean().item(),
        "largest_update": largest,
        "rms_before": start.square().mean().sqrt().item(),
        "rms_after": embedding.square().mean().sqrt().item(),
        "failed": largest > 100 * lr,
    }


def broken() -> Numbers:
    return run(eight_bits=True)


def fixed() -> Numbers:
    return run(eight_bits=False)
