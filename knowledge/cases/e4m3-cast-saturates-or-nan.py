"""A scale from an earlier step no longer fits: the cast to E4M3 cuts at 448 without a word, and an
inf becomes 448 as well. With a scale from this tensor nothing is cut.
"""

import torch

Numbers = dict[str, float | bool]


def run(current: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    before = torch.randn(64, 64, generator=generator)
    now = 10 * torch.randn(64, 64, generator=generator)  # the tensor has grown ten times
    scale = (now if current else before).abs().max() / 448
    cut = int((now.abs() / scale > 448).sum())
    stored = (now / scale).to(torch.float8_e4m3fn).float() * scale
    infinity = torch.tensor([float("inf")]).to(torch.float8_e4m3fn).float()
    return {
        "cut_percent": 100 * cut / now.numel(),
        "not_finite_after_the_cast": int((~stored.isfinite()).sum()),
        "infinity_is_stored_as": infinity.item(),
        "largest_before": now.abs().max().item(),
        "largest_after": stored.abs().max().item(),
        "error": ((stored - now).norm() / now.norm()).item(),
        "failed": cut > 0,
    }


def broken() -> Numbers:
    return run(current=False)


def fixed() -> Numbers:
    return run(current=True)
