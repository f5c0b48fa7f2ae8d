"""Gradients in NVFP4: what lies under a quarter of the block's step is rounded to 0 each time and
never adds up. With stochastic rounding the average of many steps is right.
"""

import torch

Numbers = dict[str, float | bool]

GRID = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])


def to_nvfp4(x: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
    """Emulated: E2M1 with an E4M3 scale for 16 elements; rounds to nearest without a generator."""
    scale = (x.abs().amax(-1, keepdim=True) / 6).to(torch.float8_e4m3fn).float()
    scaled = (x.abs() / scale).clamp(max=6.0)
    above = torch.bucketize(scaled, GRID).clamp(1, 7)
    low, high = GRID[above - 1], GRID[above]
    share = (scaled - low) / (high - low)
    if generator is None:
        up = share > 0.5
    else:
        up = torch.rand(share.shape, generator=generator) < share
    return torch.where(up, high, low) * scale * x.sign()


def hadamard() -> torch.Tensor:
    matrix = torch.ones(1, 1)
    while len(matrix) < 16:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    return matrix / 4


def run(stochastic: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    gradient = 0.05 * torch.randn(256, 16, generator=generator)
    gradient[:, 0] = 1.0  # one large element in each block
    steps = 400
    total = torch.zeros_like(gradient)
    for _ in range(steps):
        total += to_nvfp4(gradient, generator if stochastic else None)
    small, mean = gradient[:, 1:], total[:, 1:] / steps
    rotated = to_nvfp4(gradient @ hadamard(), None) @ hadamard().T
    plain = to_nvfp4(gradient, None)
    error = ((mean - small).norm() / small.norm()).item()
    return {
        "small_elements_zero_percent": 100 * (plain[:, 1:] == 0).float().mean().item(),
        "error_of_the_mean": error,
        "error_once": ((plain - gradient)[:, 1:].norm() / small.norm()).item(),
        "error_once_rotated": ((rotated - gradient)[:, 1:].norm() / small.norm()).item(),
        "failed": error > 0.2,
    }


def broken() -> Numbers:
    return run(stochastic=False)


def fixed() -> Numbers:
    return run(stochastic=True)
