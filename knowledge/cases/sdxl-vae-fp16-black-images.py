"""A decoder whose convolution gives values of 300,000 before a GroupNorm, which does not mind: in
FP16 they are infinite and the picture is black. With weights divided by 16 FP16 gives the picture.
"""

import torch
import torch.nn.functional as F

Numbers = dict[str, float | bool]


def decode(latent: torch.Tensor, weight: torch.Tensor, to_rgb: torch.Tensor) -> torch.Tensor:
    hidden = F.conv2d(latent, weight, padding=1)
    # GroupNorm in FP32, as its kernels compute it.
    normed = F.group_norm(hidden.float(), 4).to(latent.dtype)
    return F.conv2d(F.silu(normed), to_rgb).float()


def pixels(image: torch.Tensor) -> torch.Tensor:
    """As a picture is saved: NaN has no place among 0 to 255 and becomes 0."""
    return (image.clamp(-1, 1) * 127.5 + 127.5).nan_to_num(0).to(torch.uint8)


def run(rescaled: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    latent = torch.randn(1, 4, 16, 16, generator=generator)
    weight = torch.randn(16, 4, 3, 3, generator=generator) * 12000
    to_rgb = torch.randn(3, 16, 1, 1, generator=generator) / 8
    exact = decode(latent, weight, to_rgb)
    absmax = F.conv2d(latent, weight, padding=1).abs().max().item()
    factor = 16.0 if rescaled else 1.0
    image = decode(latent.half(), (weight / factor).half(), to_rgb.half())
    black = (pixels(image) == 0).float().mean().item()
    difference = (pixels(image).int() - pixels(exact).int()).abs().max().item()
    return {
        "absmax_before_norm": absmax,
        "nan_percent": 100 * torch.isnan(image).float().mean().item(),
        "black_percent": 100 * black,
        "largest_pixel_difference": difference,
        "failed": black > 0.9,
    }


def broken() -> Numbers:
    return run(rescaled=False)


def fixed() -> Numbers:
    return run(rescaled=True)
