"""Linear attention sums the keys' features over the sequence: all are positive, so the sum of a
longer sequence leaves the range of FP16 and the division by it gives zeros or NaN.
"""

import torch
import torch.nn.functional as F

Numbers = dict[str, float | bool]


def attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, sums: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """elu + 1 as the feature map; the sums over the sequence in `sums`."""
    q, k = (F.elu(q) + 1).to(sums), (F.elu(k) + 1).to(sums)
    keys = k.sum(0)
    values = k.T @ v.to(sums)
    # Both are numerator and denominator of one weighted mean.
    return (q @ values) / (q @ keys)[:, None], (q @ keys).abs().max()


def run(sums: torch.dtype) -> Numbers:
    generator = torch.Generator().manual_seed(0)

    def bad(length: int) -> tuple[int, float, float]:
        q = torch.randn(8, 64, generator=generator).half() * 3
        k = torch.randn(length, 64, generator=generator).half() * 3
        v = torch.randn(length, 64, generator=generator).half() + 1
        out, normaliser = attend(q, k, v, sums)
        wrong = int((~torch.isfinite(out) | (out == 0)).sum())
        return wrong, normaliser.item(), out.float().mean().item()

    wrong_short, normaliser_short, _ = bad(128)
    wrong_long, normaliser_long, mean_long = bad(4096)
    return {
        "normaliser_of_128": normaliser_short,
        "normaliser_of_4096": normaliser_long,
        "wrong_of_512_with_128": wrong_short,
        "wrong_of_512_with_4096": wrong_long,
        "mean_with_4096": mean_long,
        "failed": wrong_long > 0,
    }


def broken() -> Numbers:
    return run(torch.float16)


def fixed() -> Numbers:
    return run(torch.float32)
