"""The arithmetic of the faulty kernel, emulated in FP32: keys come in tiles of 128, and the zeros
that fill the last tile get score 0 instead of -inf. With a very negative log-sum-exp exp(0 - lse)
is inf.
"""

import torch

Numbers = dict[str, float | bool]

TILE, KEYS, WIDTH = 128, 192, 64  # 192 % 128 == 64


def run(mask_the_tail: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    q, k, v, grad_out = (torch.randn(KEYS, WIDTH, generator=generator) for _ in range(4))
    q, k = 0.1 * q, 0.1 * k
    q[:, 0], k[:, 0] = 1.0, -120 * WIDTH**0.5  # every score is about -120
    scores = q @ k.T / WIDTH**0.5
    lse = scores.logsumexp(-1, keepdim=True)
    out = (scores - lse).exp() @ v
    delta = (grad_out * out).sum(-1, keepdim=True)
    # Backward, tile by tile; rows of keys that do not exist are zeros.
    filled = -KEYS % TILE
    keys = torch.nn.functional.pad(k, (0, 0, 0, filled))
    values = torch.nn.functional.pad(v, (0, 0, 0, filled))
    grad_q = torch.zeros_like(q)
    for start in range(0, len(keys), TILE):
        key, value = keys[start : start + TILE], values[start : start + TILE]
        score = q @ key.T / WIDTH**0.5
        if mask_the_tail:
            score[:, max(0, KEYS - start) :] = float("-inf")
        p = (score - lse).exp()
        grad_score = p * (grad_out @ value.T - delta)
        grad_q += grad_score @ key / WIDTH**0.5
    return {
        "largest_lse": lse.max().item(),
        "output_nan": int(torch.isnan(out).sum()),
        "gradient_nan": int(torch.isnan(grad_q).sum()),
        "elements": grad_q.numel(),
        "failed": not bool(torch.isfinite(grad_q).all()),
    }


def broken() -> Numbers:
    return run(mask_the_tail=False)


def fixed() -> Numbers:
    return run(mask_the_tail=True)
