"""update() between two optimizers: the second one's gradients are divided by another scale than
they were multiplied by.
"""

import torch

Numbers = dict[str, float | bool]


def run(update_between: bool) -> Numbers:
    a = torch.nn.Parameter(torch.zeros(1))
    b = torch.nn.Parameter(torch.zeros(1))
    first = torch.optim.SGD([a], lr=1.0)
    second = torch.optim.SGD([b], lr=1.0)
    # growth_interval=1 doubles the scale at every good update(), which real runs do once in 2000.
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=1)
    scaler.scale(a.sum()).backward()
    scaler.scale(b.sum()).backward()
    scaled_with = scaler.get_scale()
    scaler.step(first)
    if update_between:
        scaler.update()
    unscaled_with = scaler.get_scale()
    scaler.step(second)
    scaler.update()
    return {
        "scaled_with": scaled_with,
        "unscaled_with": unscaled_with,
        "true_gradient": 1.0,
        "gradient_used": -b.item(),
        "failed": -b.item() != 1.0,
    }


def broken() -> Numbers:
    return run(update_between=True)


def fixed() -> Numbers:
    return run(update_between=False)
