"""Trains each of trainings.py in FP32, under autocast, and under autocast with the guard:
`python evaluate.py`.
"""

from __future__ import annotations

import math
import sys
from statistics import mean

import torch
import trainings
from mpnanny import PrecisionGuard
from torch import nn


def train(of: trainings.Training, low: bool, guarded: bool, moved: float = 0.0, **options):
    """Losses, the model, and the guard if there is one. `moved`: share by which the first weights
    are moved, to see what rounding alone may do.
    """
    model = of.model()
    with torch.no_grad():
        for each in model.parameters():
            each.mul_(1 + moved)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", enabled=low and of.scaler)
    guard = PrecisionGuard(model, optimizer, scaler, quiet=True, **options) if guarded else None
    losses = []
    for step in range(trainings.STEPS):
        x, target = of.batch(step)
        with guard.step() if guard else torch.enable_grad():
            optimizer.zero_grad()
            with torch.autocast("cpu", of.dtype, enabled=low):
                output = model(x)
            loss = nn.functional.cross_entropy(output.float(), target)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        losses.append(loss.item())
    return losses, model, guard


def held_out(model: nn.Module, of: trainings.Training) -> float:
    """Mean loss in FP32 over batches that no training saw, none of them an outlier."""
    model.eval()
    with torch.no_grad():
        losses = []
        for step in range(10_000, 10_016):
            x, target = trainings.Training(of.make, of.dtype, False).batch(step)
            losses.append(nn.functional.cross_entropy(model(x), target).item())
    return mean(losses)


def main() -> int:
    for name, of in (trainings.FAILING | trainings.HEALTHY).items():
        plain, plain_model, _ = train(of, low=False, guarded=False)
        low, low_model, _ = train(of, low=True, guarded=False)
        kept, kept_model, guard = train(of, low=True, guarded=True)
        exact = held_out(plain_model, of)
        apart = (held_out(kept_model, of) - exact) / exact
        _, other, _ = train(of, low=False, guarded=False, moved=2.0**-11)
        noise = (held_out(other, of) - exact) / exact
        bad = sum(not math.isfinite(each) for each in low)
        print(
            f"{name}: FP32 {exact:.4f} (moved by 2^-11: {noise:+.2%}); autocast"
            f" {held_out(low_model, of):.4f}, {bad} losses not finite;"
            f" guarded {apart:+.2%}, islands {guard.islands}"
        )
        for change in guard.changes:
            print("   ", change.step, change.kind, change.module, change.value, change.reason)
    return 0


if __name__ == "__main__":
    sys.exit(main())
