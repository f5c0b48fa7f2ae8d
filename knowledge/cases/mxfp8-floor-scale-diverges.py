"""MXFP8 blocks of 32 with a power-of-two scale: rounded down, the scale is too small for maxima
with a mantissa above 1.75, which are cut at 448. Rounded up, none is.
"""

import torch

Numbers = dict[str, float | bool]


def run(up: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    # Blocks of every magnitude, as activations and gradients have them.
    size = torch.exp(2 * torch.randn(4096, 1, generator=generator))
    x = size * torch.randn(4096, 32, generator=generator)
    largest = x.abs().amax(-1, keepdim=True)
    if up:
        exponent = torch.ceil(torch.log2(largest / 448))
    else:
        exponent = torch.floor(torch.log2(largest)) - 8  # 8: exponent of 448 = 1.75 * 2**8
    scale = torch.exp2(exponent)
    scaled = x / scale
    stored = scaled.clamp(-448, 448).to(torch.float8_e4m3fn).float() * scale
    cut = (scaled.abs() > 448).any(-1)
    kept = stored.abs().amax(-1, keepdim=True) / largest
    return {
        "blocks_cut_percent": 100 * cut.float().mean().item(),
        "worst_maximum_kept": kept.min().item(),
        "mean_shift_of_cut_maxima": (kept[cut].mean() - 1).item() if cut.any() else 0.0,
        "error": ((stored - x).norm() / x.norm()).item(),
        "failed": bool(cut.any()),
    }


def broken() -> Numbers:
    return run(up=False)


def fixed() -> Numbers:
    return run(up=True)
