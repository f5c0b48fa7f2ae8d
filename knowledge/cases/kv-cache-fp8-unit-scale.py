"""Values with a few large channels go to an FP8 cache with scale 1: everything above 448 is cut,
and the output of attention is far off. With a calibrated scale it is not.
"""

import torch

Numbers = dict[str, float | bool]


def to_cache(x: torch.Tensor, scale: torch.Tensor | float) -> torch.Tensor:
    return (x / scale).clamp(-448, 448).to(torch.float8_e4m3fn).float() * scale


def run(calibrated: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    tokens, width = 256, 64
    query = torch.randn(32, width, generator=generator)
    key = torch.randn(tokens, width, generator=generator)
    value = 10 * torch.randn(tokens, width, generator=generator)
    value[:, :2] += 1200  # two channels of this layer are large in every token
    scale = value.abs().max() / 448 if calibrated else 1.0
    cached = to_cache(value, scale)
    weights = (query @ to_cache(key, 1.0).T / width**0.5).softmax(-1)
    got, true = weights @ cached, weights @ value
    cut = (value.abs() / scale > 448).float().mean().item()
    error = ((got - true).norm() / true.norm()).item()
    return {
        "cut_percent": 100 * cut,
        "largest_value": value.abs().max().item(),
        "largest_in_cache": cached.abs().max().item(),
        "error_of_attention": error,
        "failed": error > 0.1,
    }


def broken() -> Numbers:
    return run(calibrated=False)


def fixed() -> Numbers:
    return run(calibrated=True)
