"""The mean gradient of 64 workers, whose own gradients are mostly noise: cast to BF16 before the
sum it is far off, cast to FP16 with a loss scale it is not, in FP32 it is right.
"""

import torch

Numbers = dict[str, float | bool]

WORKERS, ELEMENTS = 64, 4096


def error(gradients: torch.Tensor, dtype: torch.dtype, scale: float) -> float:
    """What torch's compress hooks do: cast, divide by the world size, add up, cast back."""
    total = torch.zeros(ELEMENTS, dtype=dtype)
    for gradient in gradients:
        total = total + (scale * gradient).to(dtype) / WORKERS
    right = gradients.double().mean(0)
    return ((total.double() / scale - right).norm() / right.norm()).item()


def run(dtype: torch.dtype) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    signal = 1e-4 * torch.randn(ELEMENTS, generator=generator)
    noise = 3e-3 * torch.randn(WORKERS, ELEMENTS, generator=generator)
    noise = noise - noise.mean(0)  # it cancels over the workers
    gradients = signal + noise
    got = error(gradients, dtype, 1.0)
    return {
        "error_percent": 100 * got,
        "error_percent_fp16_scaled": 100 * error(gradients, torch.float16, 1024.0),
        "failed": got > 0.01,
    }


def broken() -> Numbers:
    return run(torch.bfloat16)


def fixed() -> Numbers:
    return run(torch.float32)
