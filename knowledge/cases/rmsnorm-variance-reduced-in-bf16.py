"""The mean square of an RMSNorm summed in BF16: 32 partial sums as the lanes of a warp keep them,
then a tree. Channels of size 1 vanish beside outliers, and the whole row gets a wrong scale.
"""

import torch

Numbers = dict[str, float | bool]


def mean_square(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    squares = x.to(dtype).square().reshape(x.shape[0], -1, 32)
    lanes = torch.zeros_like(squares[:, 0])
    for step in range(squares.shape[1]):
        lanes = lanes + squares[:, step]
    while lanes.shape[1] > 1:
        half = lanes.shape[1] // 2
        lanes = lanes[:, :half] + lanes[:, half:]
    return lanes / x.shape[1]


def run(dtype: torch.dtype) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(16, 8192, generator=generator)
    x[:, :32] = 60.0  # massive activations: a few channels, all of them in the same place
    x = x.to(torch.bfloat16)
    y = x.double() * torch.rsqrt(mean_square(x, dtype).double() + 1e-6)
    exact = x.double() * torch.rsqrt(x.double().square().mean(-1, keepdim=True) + 1e-6)
    scale = (y.norm(dim=-1) / exact.norm(dim=-1)).mean().item()
    return {
        "scale_error_percent": 100 * abs(scale - 1),
        "failed": abs(scale - 1) > 1e-3,
    }


def broken() -> Numbers:
    return run(torch.bfloat16)


def fixed() -> Numbers:
    return run(torch.float32)
