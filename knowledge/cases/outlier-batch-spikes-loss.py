"""One batch of 300 holds a sample in other units (30 times too large): the loss of that step
jumps with the learning rate unchanged. Clipping keeps the harm to that step.
"""

import torch
from torch import nn

Numbers = dict[str, float | bool]

BAD = 200


def run(clipped: bool) -> Numbers:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    losses, norms = [], []
    for step in range(300):
        x = torch.randn(64, 8, generator=generator)
        y = x.sum(-1, keepdim=True)
        if step == BAD:
            x[5] *= 30  # centimetres among feet; its label is in feet
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        limit = 1.0 if clipped else float("inf")
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), limit).item())
        optimizer.step()
        losses.append(loss.item())
    before = sorted(losses[BAD - 50 : BAD])[25]
    after = sorted(losses[BAD + 50 :])[25]
    return {
        "loss_before": before,
        "loss_of_bad_batch": losses[BAD],
        "norm_before": sorted(norms[BAD - 50 : BAD])[25],
        "norm_of_bad_batch": norms[BAD],
        "loss_of_next_step": losses[BAD + 1],
        "loss_50_steps_later": after,
        "failed": not losses[BAD + 1] < 10 * before,
    }


def broken() -> Numbers:
    return run(clipped=False)


def fixed() -> Numbers:
    return run(clipped=True)
