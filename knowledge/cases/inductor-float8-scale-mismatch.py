"""448 / amax in BF16, as eager computes it, and in FP32, as a fused kernel does: the scales
differ, and so do many FP8 codes. With FP32 from the start both agree.
"""

import torch

Numbers = dict[str, float | bool]


def scale_in_eager(x: torch.Tensor, upcast_first: bool) -> torch.Tensor:
    largest = x.abs().max()
    if upcast_first:
        largest = largest.float()
    return (448.0 / largest.clamp(min=1e-12)).float()


def run(upcast_first: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(256, 256, generator=generator).clamp(-4, 4).bfloat16()
    x[0, 0] = 4.28125
    eager = scale_in_eager(x, upcast_first)
    fused = 448.0 / x.float().abs().max()  # one kernel, FP32 inside
    codes = [(x.float() * s).to(torch.float8_e4m3fn).float() for s in (eager, fused)]
    different = (codes[0] != codes[1]).float().mean().item()
    return {
        "scale_eager": eager.item(),
        "scale_fused": fused.item(),
        "relative_difference": (eager / fused - 1).abs().item(),
        "codes_that_differ_percent": 100 * different,
        "failed": different > 0,
    }


def broken() -> Numbers:
    return run(upcast_first=False)


def fixed() -> Numbers:
    return run(upcast_first=True)
