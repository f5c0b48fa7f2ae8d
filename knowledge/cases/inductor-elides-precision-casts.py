"""A chain of pointwise operators: eager rounds to BF16 after each of them, a fused kernel
(emulated: FP32 inside, one rounding at the end) does not. With the casts emulated in the fused
kernel both are equal.
"""

import torch

Numbers = dict[str, float | bool]


def chain(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, inner: torch.dtype
) -> torch.Tensor:
    """RoPE, then a gated residual, as one kernel whose intermediate values have `inner`."""
    x, cos, sin = x.to(inner), cos.to(inner), sin.to(inner)
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), -1)
    rotated = x * cos + turned * sin
    return (rotated * torch.sigmoid(rotated) - x).to(torch.bfloat16)


def run(emulate_precision_casts: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(256, 128, generator=generator).bfloat16()
    angle = 6.28 * torch.rand(256, 128, generator=generator)
    cos, sin = angle.cos().bfloat16(), angle.sin().bfloat16()
    eager = chain(x, cos, sin, torch.bfloat16)
    fused = chain(x, cos, sin, torch.bfloat16 if emulate_precision_casts else torch.float32)
    exact = chain_exact(x, cos, sin)
    difference = (fused.float() - eager.float()).abs()
    relative = difference / eager.float().abs().clamp(min=1e-6)
    return {
        "elements_that_differ_percent": 100 * (difference > 0).float().mean().item(),
        "largest_difference": difference.max().item(),
        "largest_relative_difference": relative.max().item(),
        "eager_error": (eager - exact).norm().item(),
        "fused_error": (fused - exact).norm().item(),
        "failed": not torch.equal(fused, eager),
    }


def chain_exact(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    x, cos, sin = x.double(), cos.double(), sin.double()
    half = x.shape[-1] // 2
    rotated = x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin
    return rotated * torch.sigmoid(rotated) - x


def broken() -> Numbers:
    return run(emulate_precision_casts=False)


def fixed() -> Numbers:
    return run(emulate_precision_casts=True)
