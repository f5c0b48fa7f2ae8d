"""TF32's rounding of the factors of a matrix product, emulated on FP32 values: points in the
thousands, turned by a rotation, are off by tenths; with all 24 bits they are not.
"""

import torch

Numbers = dict[str, float | bool]


def tf32(x: torch.Tensor) -> torch.Tensor:
    """Round to 11 significant bits, ties away from zero, as the hardware's conversion does."""
    bits = x.contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


def run(allow_tf32: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    points = 1000 + 1000 * torch.rand(4096, 3, generator=generator)
    rotation = torch.linalg.qr(torch.randn(3, 3, generator=generator)).Q
    exact = points.double() @ rotation.double()
    a, b = (tf32(points), tf32(rotation)) if allow_tf32 else (points, rotation)
    turned = a @ b
    identity = (tf32(points) if allow_tf32 else points) @ torch.eye(3)
    error = (turned - exact).abs()
    return {
        "largest_error": error.max().item(),
        "relative_error": (error.norm() / exact.norm()).item(),
        "changed_by_identity_percent": 100 * (identity != points).float().mean().item(),
        "failed": bool(error.max() > 0.01),
    }


def broken() -> Numbers:
    return run(allow_tf32=True)


def fixed() -> Numbers:
    return run(allow_tf32=False)
