"""A norm that scales by 1 + w, with the sum in BF16: what a fine-tuning has learned below 0.0039 is
1.0 again, and one weight of 15.8125 becomes 16.75 instead of 16.8125.
"""

import torch

Numbers = dict[str, float | bool]


def run(dtype: torch.dtype) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    learned = (0.002 * torch.randn(1024, generator=generator)).to(torch.bfloat16)
    x = torch.randn(1024, generator=generator)
    scale = 1 + learned.to(dtype)
    y = x.to(dtype) * scale
    exact = x.to(dtype).double() * (1 + learned.double())
    unchanged = (scale == 1).double().mean().item()
    large = (1 + torch.tensor(15.8125, dtype=torch.bfloat16).to(dtype)).item()
    error = ((y.double() - exact).abs() / exact.abs()).max().item()
    return {
        "scale_is_one_percent": 100 * unchanged,
        "one_plus_15.8125": large,
        "largest_error_percent": 100 * error,
        "failed": unchanged > 0.5,
    }


def broken() -> Numbers:
    return run(torch.bfloat16)


def fixed() -> Numbers:
    return run(torch.float32)
