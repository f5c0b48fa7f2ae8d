"""A prompt longer than the cut-off leaves no label: mean cross-entropy over 0 tokens is 0/0, in
FP32.
"""

import torch
from torch.nn import functional

Numbers = dict[str, float | bool]


def run(guarded: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    prompt, answer, cutoff, vocabulary = 64, 8, 32, 11
    labels = torch.tensor([-100] * prompt + [3] * answer)[:cutoff]
    logits = torch.randn(cutoff, vocabulary, generator=generator)
    if guarded:
        count = (labels != -100).sum().clamp_min(1)
        loss = functional.cross_entropy(logits, labels, ignore_index=-100, reduction="sum") / count
    else:
        loss = functional.cross_entropy(logits, labels, ignore_index=-100)
    return {
        "label_tokens": int((labels != -100).sum()),
        "logits_absmax": logits.abs().max().item(),
        "loss": loss.item(),
        "failed": not bool(torch.isfinite(loss)),
    }


def broken() -> Numbers:
    return run(guarded=False)


def fixed() -> Numbers:
    return run(guarded=True)
