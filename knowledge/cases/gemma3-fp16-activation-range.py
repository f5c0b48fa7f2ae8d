"""A residual stream as Gemma 3 builds it: embeddings times sqrt(hidden), and norms behind each
block with large weights. It passes 65504: inf in FP16, zero or NaN behind the next norm; fine in
BF16.
"""

import torch

Numbers = dict[str, float | bool]

HIDDEN = 256
BLOCKS = 12


def rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    full = x.float()
    return (full * torch.rsqrt(full.square().mean(-1, keepdim=True) + 1e-6) * weight).to(x.dtype)


def run(dtype: torch.dtype) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    embedded = torch.randn(4, HIDDEN, generator=generator)
    x = (embedded * HIDDEN**0.5).to(dtype)
    post = torch.full((HIDDEN,), 20.0)
    post[7] = 5_000.0  # one channel with a very large trained norm weight
    one = torch.ones(HIDDEN)
    broke = 0
    largest = 0.0
    for block in range(1, BLOCKS + 1):
        weight = torch.randn(HIDDEN, HIDDEN, generator=generator) / HIDDEN**0.5
        weight[:, 7] = weight[:, 7].abs()  # its sign is the same in each block: it adds up
        y = torch.nn.functional.gelu(rms_norm(x, one)).abs() @ weight.to(dtype)
        x = x + rms_norm(y, post)
        largest = max(largest, x.float().abs().nan_to_num(0, 0).max().item())
        if broke == 0 and not bool(torch.isfinite(x).all()):
            broke = block
    final = rms_norm(x, one)
    return {
        "largest_finite": largest,
        "first_infinite_block": broke,
        "nan_at_the_end": int(torch.isnan(final).sum()),
        "failed": broke > 0,
    }


def broken() -> Numbers:
    return run(torch.float16)


def fixed() -> Numbers:
    return run(torch.bfloat16)
