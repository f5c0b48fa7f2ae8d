"""A second backward() of a regularisation term that was not multiplied by the loss scale: unscaling
divides it all the same, and its effect is 65536 times too small.
"""

import torch

Numbers = dict[str, float | bool]


def run(scaled: bool) -> Numbers:
    weight = torch.nn.Parameter(torch.full((4,), 2.0))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    for _ in range(50):
        optimizer.zero_grad()
        main = (weight - 2).square().sum()
        penalty = weight.square().sum()
        if scaled:
            scaler.scale(main + penalty).backward()
        else:
            scaler.scale(main).backward()
            penalty.backward()
        scaler.step(optimizer)
        scaler.update()
    # Both terms have the same weight: the minimum of their sum is at 1.
    reached = weight.mean().item()
    return {
        "loss_scale": scaler.get_scale(),
        "right_weight": 1.0,
        "weight": reached,
        "share_of_penalty": (2 - reached) / 1.0,
        "failed": reached > 1.5,
    }


def broken() -> Numbers:
    return run(scaled=False)


def fixed() -> Numbers:
    return run(scaled=True)
