"""A model that was trained with a constant in BF16, 55.5, and a port that multiplies by the exact
55.4256: all embeddings differ by 0.13 percent, and the logits with them. With the rounded constant
they are equal.
"""

import torch

Numbers = dict[str, float | bool]

WIDTH = 3072


def run(as_trained: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    embedding = (torch.randn(32, WIDTH, generator=generator) / WIDTH**0.5).bfloat16()
    rounded = torch.tensor(WIDTH**0.5, dtype=torch.bfloat16)
    reference = embedding * rounded
    factor = rounded.item() if as_trained else WIDTH**0.5
    port = (embedding.float() * factor).bfloat16()
    other = (port != reference).float().mean().item()
    return {
        "constant": factor,
        "constant_of_the_reference": rounded.item(),
        "difference_percent": 100 * abs(factor / rounded.item() - 1),
        "elements_that_differ_percent": 100 * other,
        "failed": other > 0,
    }


def broken() -> Numbers:
    return run(as_trained=False)


def fixed() -> Numbers:
    return run(as_trained=True)
