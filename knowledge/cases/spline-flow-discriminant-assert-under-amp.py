"""The inverse of a rational-quadratic spline with bins and slopes in FP16: the discriminant of its
quadratic equation is negative for some inputs, where it is positive by construction.
"""

import torch

Numbers = dict[str, float | bool]

BINS = 10
BOUND = 5.0


def discriminant(y: torch.Tensor, raw: torch.Tensor) -> torch.Tensor:
    """b^2 - 4ac of the equation that the inverse solves, for each y."""
    widths = 1e-3 + (1 - 1e-3 * BINS) * raw[:, :BINS].softmax(-1)
    heights = 1e-3 + (1 - 1e-3 * BINS) * raw[:, BINS : 2 * BINS].softmax(-1)
    slopes = 1e-3 + torch.nn.functional.softplus(raw[:, 2 * BINS :])
    edges_x = torch.nn.functional.pad(widths.cumsum(-1), (1, 0)) * 2 * BOUND - BOUND
    edges_y = torch.nn.functional.pad(heights.cumsum(-1), (1, 0)) * 2 * BOUND - BOUND
    place = (y[:, None] >= edges_y[:, :-1]).sum(-1, keepdim=True).clamp(1, BINS) - 1
    low, high = edges_y.gather(1, place), edges_y.gather(1, place + 1)
    width = edges_x.gather(1, place + 1) - edges_x.gather(1, place)
    d0, d1 = slopes.gather(1, place), slopes.gather(1, place + 1)
    height = high - low
    steep = height / width
    rest = y[:, None] - low
    bend = d0 + d1 - 2 * steep
    a = rest * bend + height * (steep - d0)
    b = height * d0 - rest * bend
    c = -steep * rest
    return b.square() - 4 * a * c


def run(dtype: torch.dtype) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    raw = (1.5 * torch.randn(20_000, 3 * BINS + 1, generator=generator)).half()
    y = (2 * BOUND * torch.rand(20_000, generator=generator) - BOUND).half()
    d = discriminant(y.to(dtype), raw.to(dtype))
    return {
        "inputs": y.numel(),
        "negative": int((d < 0).sum()),
        "not_finite": int((~torch.isfinite(d)).sum()),
        "lowest": d[torch.isfinite(d)].min().item(),
        "failed": bool((~(d >= 0)).any()),
    }


def broken() -> Numbers:
    return run(torch.float16)


def fixed() -> Numbers:
    return run(torch.float32)
