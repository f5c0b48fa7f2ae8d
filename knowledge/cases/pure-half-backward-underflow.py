"""Gradients near 1e-8 are zero in an FP16 backward; multiplied by 65536 first, they survive."""

import torch

Numbers = dict[str, float | bool]


def run(scale: float) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(32, 16, generator=generator).half()
    weight = torch.randn(16, generator=generator).half().requires_grad_(True)
    (x @ weight * 1e-3).float().mul(1e-5).mul(scale).mean().backward()
    gradient = weight.grad.float() / scale
    zeros = (gradient == 0).float().mean().item()
    return {
        "smallest_fp16": 2.0**-24,
        "scale": scale,
        "share_of_zeros": zeros,
        "gradient_absmax": gradient.abs().max().item(),
        "failed": zeros > 0.5,
    }


def broken() -> Numbers:
    return run(1.0)


def fixed() -> Numbers:
    return run(65536.0)
