"""1000 candidates with BF16 logits, ranked by sigmoid: in BF16 most scores near 1 are equal, in
FP32 there are as many scores as logits.
"""

import torch

Numbers = dict[str, float | bool]


def run(upcast: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    logits = (5 + 2 * torch.randn(1000, generator=generator)).to(torch.bfloat16)
    scores = torch.sigmoid(logits.float()) if upcast else torch.sigmoid(logits).float()
    different_logits = logits.unique().numel()
    different_scores = scores.unique().numel()
    at_top = int((scores == scores.max()).sum())
    return {
        "different_logits": different_logits,
        "different_scores": different_scores,
        "share_the_top_score": at_top,
        "failed": different_scores < different_logits / 2,
    }


def broken() -> Numbers:
    return run(upcast=False)


def fixed() -> Numbers:
    return run(upcast=True)
