"""Cholesky of a covariance matrix that a 16-bit product made: no kernel for it, and a cast behind
the product only changes the error: rounding has made an eigenvalue negative. FP32 throughout
works.
"""

import torch

Numbers = dict[str, float | bool]


def attempt(matrix: torch.Tensor) -> bool:
    try:
        torch.linalg.cholesky(matrix)
    except RuntimeError:
        return False
    return True


def run(dtype: torch.dtype) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    # Features that depend on each other: eigenvalues from 1 down to 1e-6.
    x = torch.randn(512, 16, generator=generator) * torch.logspace(0, -3, 16)
    mix = torch.linalg.qr(torch.randn(16, 16, generator=generator))[0]
    x = x @ mix
    covariance = x.to(dtype).T @ x.to(dtype) / 512
    smallest = torch.linalg.eigvalsh(covariance.double()).min().item()
    return {
        "decomposed_as_it_is": attempt(covariance),
        "decomposed_after_float": attempt(covariance.float()),
        "smallest_eigenvalue": smallest,
        "failed": not attempt(covariance),
    }


def broken() -> Numbers:
    return run(torch.bfloat16)


def fixed() -> Numbers:
    return run(torch.float32)
