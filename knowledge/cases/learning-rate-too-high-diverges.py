"""Gradient descent on 50 * w^2: stable below a step of 2 / 100, divergent above, in FP32 exactly
as in FP16.
"""

import torch

Numbers = dict[str, float | bool]


def run(lr: float) -> Numbers:
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=lr)
    first = last = float("nan")
    diverged_at = 0
    for step in range(1, 201):
        optimizer.zero_grad()
        loss = 50 * weight.square().sum()
        loss.backward()
        optimizer.step()
        last = loss.item()
        first = last if step == 1 else first
        if not bool(torch.isfinite(loss)):
            diverged_at = step
            break
    return {
        "lr": lr,
        "stable_below": 2 / 100,
        "first_loss": first,
        "last_loss": last,
        "diverged_at": diverged_at,
        "failed": diverged_at > 0,
    }


def broken() -> Numbers:
    return run(0.05)


def fixed() -> Numbers:
    return run(0.01)
