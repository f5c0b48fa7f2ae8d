"""The gradient norm of four shards, as each rank sees its own part of a sharded tensor: half of
the true norm, another one on each rank, and finite on three of them when the fourth has a NaN.
"""

import torch

Numbers = dict[str, float | bool]

RANKS = 4


def run(whole: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    gradient = torch.randn(64, 64, generator=generator)
    with_nan = gradient.clone()
    with_nan[20, 0] = float("nan")

    def norms(tensor: torch.Tensor) -> torch.Tensor:
        local = torch.stack([shard.norm() for shard in tensor.chunk(RANKS)])
        # full_tensor(): squares are summed over the ranks, then the root
        return local.square().sum().sqrt().expand(RANKS) if whole else local

    seen, true = norms(gradient), gradient.norm()
    finite = int(torch.isfinite(norms(with_nan)).sum())
    clipped = torch.cat([s * (10.0 / n) for s, n in zip(gradient.chunk(RANKS), seen, strict=True)])
    return {
        "ranks": RANKS,
        "true_norm": true.item(),
        "norm_on_rank_0": seen[0].item(),
        "ranks_that_see_no_nan": finite,
        "norm_after_clipping_to_10": clipped.norm().item(),
        "failed": abs(seen[0].item() / true.item() - 1) > 0.01 or finite not in (0, RANKS),
    }


def broken() -> Numbers:
    return run(whole=False)


def fixed() -> Numbers:
    return run(whole=True)
