"""Muon makes all singular values of the momentum about 1, those of rounding errors too: with
Newton-Schulz in BF16 a third of the update is noise, in FP32 nothing is.
"""

import torch

Numbers = dict[str, float | bool]


def orthogonalise(momentum: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    a, b, c = 3.4445, -4.775, 2.0315
    x = (momentum / momentum.norm()).to(dtype)
    for _ in range(5):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.double()


def run(dtype: torch.dtype) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    # A momentum of low rank plus a little of everything else, as in training.
    left = torch.randn(64, 8, generator=generator)
    right = torch.randn(8, 128, generator=generator)
    momentum = left @ right + 0.02 * torch.randn(64, 128, generator=generator)
    true = orthogonalise(momentum.double(), torch.float64)
    values = torch.linalg.svdvals(momentum)

    def error(used: torch.dtype) -> float:
        return ((orthogonalise(momentum, used) - true).norm() / true.norm()).item()

    return {
        "smallest_over_largest_singular_value": (values[-1] / values[0]).item(),
        "error": error(dtype),
        "error_fp16": error(torch.float16),
        "failed": error(dtype) > 0.1,
    }


def broken() -> Numbers:
    return run(torch.bfloat16)


def fixed() -> Numbers:
    return run(torch.float32)
