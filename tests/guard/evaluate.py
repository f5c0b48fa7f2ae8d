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


def train(
    of: trainings.Training, low: bool, guarded: bool, moved=0.0, without=frozenset(), **options
):
    """Losses, the model, the guard if there is one, and the steps whose update was left out.
    `moved`: share by which the first weights are moved, to see what rounding alone may do;
    `without`: steps to leave out.
    """
    model = of.model()
    with torch.no_grad():
        for each in model.parameters():
            each.mul_(1 + moved)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", enabled=low and of.scaler)
    guard = PrecisionGuard(model, optimizer, scaler, quiet=True, **options) if guarded else None
    losses, left_out = [], set()
    updates = []
    optimizer.register_step_post_hook(lambda *_: updates.append(step))
    for step in range(trainings.STEPS):
        if step in without:
            continue
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
        if not updates or updates[-1] != step:
            left_out.add(step)
    return losses, model, guard, left_out


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
        _, plain_model, _, _ = train(of, low=False, guarded=False)
        low, low_model, _, _ = train(of, low=True, guarded=False)
        _, kept_model, guard, left_out = train(of, low=True, guarded=True)
        exact = held_out(plain_model, of)
        apart = (held_out(kept_model, of) - exact) / exact
        _, other, _, _ = train(of, low=False, guarded=False, moved=2.0**-11)
        noise = (held_out(other, of) - exact) / exact
        _, same, _, _ = train(of, low=False, guarded=False, without=left_out)
        without = (held_out(same, of) - exact) / exact
        bad = sum(not math.isfinite(each) for each in low)
        print(
            f"{name}: FP32 {exact:.4f} (moved by 2^-11: {noise:+.2%}); autocast"
            f" {held_out(low_model, of):.4f}, {bad} losses not finite;"
            f" guarded {apart:+.2%} with {len(left_out)} steps left out (FP32 without these:"
            f" {without:+.2%});"
            f" islands {guard.islands}"
        )
        for change in guard.changes:
            print("   ", change.step, change.kind, change.module, change.value, change.reason)
    return 0


if __name__ == "__main__":
    sys.exit(main())
