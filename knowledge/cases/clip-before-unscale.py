"""Clipping gradients that still carry the loss scale divides the real limit by 65536."""

import torch

Numbers = dict[str, float | bool]


def run(unscale: bool) -> Numbers:
    weight = torch.nn.Parameter(torch.zeros(4))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=65536.0)
    loss = (weight * torch.tensor([0.6, 0.0, 0.8, 0.0])).sum()  # gradient norm 1.0: nothing to clip
    scaler.scale(loss).backward()
    if unscale:
        scaler.unscale_(optimizer)
    seen = torch.nn.utils.clip_grad_norm_([weight], max_norm=1.0).item()
    scaler.step(optimizer)
    scaler.update()
    moved = weight.detach().norm().item()
    return {
        "true_norm": 1.0,
        "norm_seen_by_clip": seen,
        "update_norm": moved,
        "failed": moved < 0.5,
    }


def broken() -> Numbers:
    return run(unscale=False)


def fixed() -> Numbers:
    return run(unscale=True)
