"""A forecast is scaled back to its level of 1,000,000 and stored in BF16: a variation of 100
vanishes in steps of 4096 to 8192. In FP32 it is right to a fraction of 1.
"""

import torch

Numbers = dict[str, float | bool]


def run(dtype: torch.dtype) -> Numbers:
    level, scale = 1e6, 100.0
    z = torch.sin(torch.arange(48) * (2 * torch.pi / 24)).to(torch.bfloat16)  # the model's output
    exact = z.double() * scale + level
    forecast = (z.float() * scale + level).to(dtype)
    error = (forecast.double() - exact).abs().max().item()
    return {
        "different_values_of_model": z.unique().numel(),
        "different_values_of_forecast": forecast.unique().numel(),
        "largest_error": error,
        "variation": scale,
        "failed": error > scale / 10,
    }


def broken() -> Numbers:
    return run(torch.bfloat16)


def fixed() -> Numbers:
    return run(torch.float32)
