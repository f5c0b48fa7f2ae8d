"""Scaled by 1024 in one GradScaler, divided by 65536 in another: a gradient of 1.0 is applied as
0.0156.
"""

import torch

Numbers = dict[str, float | bool]


def run(one_scaler: bool) -> Numbers:
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    other = torch.amp.GradScaler("cpu", init_scale=65536.0)
    other.scale(torch.zeros(1))  # it has been used before, so it has a scale
    scaler.scale(weight.sum()).backward()
    stepping = scaler if one_scaler else other
    unscaled_with = stepping.get_scale()
    stepping.step(optimizer)
    stepping.update()
    applied = weight.abs().item()
    return {
        "scaled_with": 1024.0,
        "unscaled_with": unscaled_with,
        "true_gradient": 1.0,
        "applied": applied,
        "failed": applied != 1.0,
    }


def broken() -> Numbers:
    return run(one_scaler=False)


def fixed() -> Numbers:
    return run(one_scaler=True)
