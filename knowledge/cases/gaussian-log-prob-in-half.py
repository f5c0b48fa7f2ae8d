"""Log-probability of a Gaussian policy: (x - mean) is rounded to FP16's spacing at x and then
divided by a small sigma.
"""

import torch

Numbers = dict[str, float | bool]


def log_prob(x: torch.Tensor, mean: torch.Tensor, sigma: float) -> torch.Tensor:
    z = (x - mean) / sigma
    return (-0.5 * z * z).double().sum(-1)


def run(dtype: torch.dtype) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    sigma = 1e-3
    mean = 4 + torch.rand(1024, 8, generator=generator)
    action = mean + sigma * torch.randn(1024, 8, generator=generator)
    exact = log_prob(action.double(), mean.double(), sigma)
    error = (log_prob(action.to(dtype), mean.to(dtype), sigma) - exact).abs()
    return {
        "spacing_over_sigma": 2.0**-8 / sigma,
        "mean_error": error.mean().item(),
        "largest_error": error.max().item(),
        "failed": error.mean().item() > 0.5,
    }


def broken() -> Numbers:
    return run(torch.float16)


def fixed() -> Numbers:
    return run(torch.float32)
