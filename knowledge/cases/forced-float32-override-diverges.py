"""A loader with a list of models that it takes for unfit for FP16: it loads BF16 whatever is asked
for, and the weights are rounded eight times as coarsely as requested, without a word.
"""

import torch

Numbers = dict[str, float | bool]

UNFIT_FOR_FP16 = ("gemma3", "gemma4")


def load(name: str, weight: torch.Tensor, dtype: torch.dtype, override: bool) -> torch.Tensor:
    if override and dtype == torch.float16 and name.startswith(UNFIT_FOR_FP16):
        dtype = torch.bfloat16
    return weight.to(dtype)


def run(override: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    weight = 0.02 * torch.randn(256, 256, generator=generator)
    loaded = load("gemma4-e2b", weight, torch.float16, override)
    error = ((loaded.double() - weight.double()).norm() / weight.double().norm()).item()
    return {
        "rounding_error_percent": 100 * error,
        "largest_activation_reported": 2080,
        "fp16_max": torch.finfo(torch.float16).max,
        "is_what_was_asked_for": loaded.dtype == torch.float16,
        "failed": loaded.dtype != torch.float16 and error > 2**-11,
    }


def broken() -> Numbers:
    return run(override=True)


def fixed() -> Numbers:
    return run(override=False)
