"""Gradients of 1e-9 and Adam's eps of 1e-8, all in FP32: the update is a tenth of lr and shrinks
with the gradient, like SGD's. With eps 1e-15 it is lr, as Adam means it.
"""

import torch

Numbers = dict[str, float | bool]

LR, STEPS = 1e-2, 200


def run(eps: float) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(256, 8, generator=generator)
    y = x @ torch.randn(8, 1, generator=generator)
    weight = torch.nn.Parameter(torch.zeros(8, 1))
    optimizer = torch.optim.AdamW([weight], lr=LR, eps=eps, weight_decay=0.0)
    gradient, first_update, first = 0.0, 0.0, 0.0
    for step in range(STEPS):
        # Behind many layers little arrives: the factor stands for the rest of a large model.
        error = (x @ weight - y).square().mean()
        (1e-9 * error).backward()
        assert weight.grad is not None
        before = weight.detach().clone()
        if step == 0:
            gradient, first = weight.grad.square().mean().sqrt().item(), error.item()
        optimizer.step()
        if step == 0:
            first_update = (weight.detach() - before).square().mean().sqrt().item()
        optimizer.zero_grad()
    return {
        "gradient_rms": gradient,
        "first_update_over_lr": first_update / LR,
        "loss_at_the_start": first,
        "loss_after_200_steps": error.item(),
        "failed": error.item() > 0.2 * first,
    }


def broken() -> Numbers:
    return run(1e-8)


def fixed() -> Numbers:
    return run(1e-15)
