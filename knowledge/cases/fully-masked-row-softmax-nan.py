"""A query that may see no key: softmax over a row of -inf is 0/0, also in FP32, and poisons shared
gradients.
"""

import torch

Numbers = dict[str, float | bool]


def run(guarded: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(4, 4, generator=generator, requires_grad=True)
    x = torch.randn(3, 4, generator=generator)
    allowed = torch.tensor([[True, True, False], [True, False, True], [False, False, False]])
    scores = (x @ weight) @ x.T
    if guarded:
        dead = ~allowed.any(-1, keepdim=True)
        weights = scores.masked_fill(~(allowed | dead), float("-inf")).softmax(-1)
        weights = weights.masked_fill(dead, 0.0)
    else:
        bias = torch.zeros_like(scores).masked_fill(~allowed, float("-inf"))
        weights = (scores + bias).softmax(-1)
    out = weights @ x
    loss = out[:2].sum()  # the dead row is not even part of the loss
    loss.backward()
    return {
        "dead_rows": int((~allowed.any(-1)).sum()),
        "loss": loss.item(),
        "output_nan": int(torch.isnan(out).sum()),
        "gradient_nan": int(torch.isnan(weight.grad).sum()),
        "failed": not bool(torch.isfinite(weight.grad).all()),
    }


def broken() -> Numbers:
    return run(guarded=False)


def fixed() -> Numbers:
    return run(guarded=True)
