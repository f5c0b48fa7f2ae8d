"""A learning rate 1 % above what the curvature bears: the gradient grows by 2 % a step, and the
loss scale gives way for hundreds of steps while the loss is still finite, down to its floor.
"""

import torch

Numbers = dict[str, float | bool]

FLOOR = 2.0**-6


def run(lr: float) -> Numbers:
    weight = torch.nn.Parameter(torch.full((1,), 0.01))
    optimizer = torch.optim.SGD([weight], lr=lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=16384.0, growth_interval=256)
    first_fall = floor_at = skipped = 0
    last_loss = loss_at_first_fall = 0.0
    for step in range(1, 1001):
        optimizer.zero_grad()
        # The gradient of weight stands in FP16 on its way, multiplied by the scale.
        loss = 50 * weight.half().float().square().sum()
        last_loss = loss.item()
        before = scaler.get_scale()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() < before:
            skipped += 1
            loss_at_first_fall = loss_at_first_fall or last_loss
            first_fall = first_fall or step
        if scaler.get_scale() <= FLOOR:
            floor_at = step
            break
    return {
        "stable_below": 2 / 100,
        "lr": lr,
        "first_fall": first_fall,
        "loss_at_first_fall": loss_at_first_fall,
        "floor_at": floor_at,
        "skipped": skipped,
        "last_scale": scaler.get_scale(),
        "last_loss": last_loss,
        "failed": floor_at > 0,
    }


def broken() -> Numbers:
    return run(0.0202)


def fixed() -> Numbers:
    return run(0.005)
