"""An instance norm of plain reductions in FP16: the sum of a 512 x 512 map passes 65504 although
its values are about 1, and squares of values above 256 are infinite. Output: nothing but zeros
and NaN.
"""

import torch

Numbers = dict[str, float | bool]


def norm(x: torch.Tensor) -> torch.Tensor:
    count = x.shape[-1] * x.shape[-2]
    mean = x.sum((2, 3), keepdim=True) / count
    variance = ((x - mean).square().sum((2, 3), keepdim=True)) / count
    return (x - mean) * torch.rsqrt(variance + 1e-5)


def run(dtype: torch.dtype) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    x = (1 + 0.5 * torch.randn(1, 2, 512, 512, generator=generator)).half()
    large = 400 * (x[0, 1, :256] - 1)
    x[0, 1] = torch.cat([large, -large])  # a channel with large values and mean 0
    y = norm(x.to(dtype)).half()
    return {
        "largest_input": x.abs().max().item(),
        "nan": int(torch.isnan(y).sum()),
        "zeros": int((y == 0).sum()),
        "infinite": int(torch.isinf(y).sum()),
        "std_of_output": y.double().std().item(),
        "failed": not bool(abs(y.double().std() - 1) < 0.01),
    }


def broken() -> Numbers:
    return run(torch.float16)


def fixed() -> Numbers:
    return run(torch.float32)
