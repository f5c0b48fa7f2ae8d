"""A model that was trained in FP32 is converted to FP16 whole: one reduction passes 65504 and the
engine gives 0 or NaN; with that operation kept in FP32 it agrees.
"""

import torch

Numbers = dict[str, float | bool]


def model(x: torch.Tensor, keep_reduction: bool) -> torch.Tensor:
    wide = x.float() if keep_reduction else x
    energy = wide.square().sum(-1, keepdim=True)  # ReduceSum of squares
    return (wide / energy.sqrt()).to(x.dtype)


def run(keep_reduction: bool) -> Numbers:
    x = 12 * torch.randn(8, 1024, generator=torch.Generator().manual_seed(0))
    exact = model(x, keep_reduction=True)
    y = model(x.half(), keep_reduction).float()
    error = (y - exact).abs().max().item()
    return {
        "largest_sum_of_squares": x.square().sum(-1).max().item(),
        "zeros_percent": 100 * (y == 0).float().mean().item(),
        "largest_error": error,
        "failed": error > 1e-2,
    }


def broken() -> Numbers:
    return run(keep_reduction=False)


def fixed() -> Numbers:
    return run(keep_reduction=True)
