"""Eight micro-batches with 3 to 377 labels: the mean of their means is not the mean over all
labels, in FP32. Divided by the labels of the whole window it is.
"""

import torch
from torch.nn import functional as F

Numbers = dict[str, float | bool]

LABELS = [3, 5, 8, 13, 21, 55, 144, 377]


def gradient(weight: torch.Tensor, parts: list[tuple[torch.Tensor, ...]], one: bool) -> tuple:
    labels = sum(len(y) for _, y in parts)
    leaf = weight.clone().requires_grad_()
    total = 0.0
    for x, y in parts:
        if one:
            loss = F.cross_entropy(x @ leaf, y, reduction="sum") / labels
        else:
            loss = F.cross_entropy(x @ leaf, y) / len(parts)
        loss.backward()
        total += loss.item()
    return leaf.grad, total


def run(one_denominator: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    weight = 0.1 * torch.randn(16, 10, generator=generator)
    parts = []
    for count in LABELS:
        # Short answers are of other words than long ones.
        y = torch.randint(0, 3 if count < 20 else 10, (count,), generator=generator)
        parts.append((torch.randn(count, 16, generator=generator), y))
    whole = [(torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts]))]
    right, right_loss = gradient(weight, whole, one=True)
    got, loss = gradient(weight, parts, one_denominator)
    difference = ((got - right).norm() / right.norm()).item()
    return {
        "micro_batches": len(parts),
        "loss": loss,
        "loss_in_one_piece": right_loss,
        "difference_percent": 100 * difference,
        "failed": difference > 1e-3,
    }


def broken() -> Numbers:
    return run(one_denominator=False)


def fixed() -> Numbers:
    return run(one_denominator=True)
