"""A loop that overwrites `loss` with the scaled loss and logs that: the curve is 65536 times too
high and doubles when the scale grows, while the weights are those of a sound run.
"""

import torch

Numbers = dict[str, float | bool]

STEPS = 60


def run(scaled: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    weight = torch.nn.Parameter(torch.zeros(8, 1))
    target = torch.randn(8, 1, generator=generator)
    optimizer = torch.optim.SGD([weight], lr=0.02)
    scaler = torch.amp.GradScaler("cpu", init_scale=65536.0, growth_interval=50)
    logged, true = [], []
    for _ in range(STEPS):
        x = torch.randn(64, 8, generator=generator)
        loss = (x @ weight - x @ target).square().mean()
        true.append(loss.item())
        optimizer.zero_grad()
        if scaled:
            loss = scaler.scale(loss)
            loss.backward()
        else:
            scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        logged.append(loss.item())
    return {
        "first_logged": logged[0],
        "first_true": true[0],
        "factor_at_the_start": logged[0] / true[0],
        "factor_at_the_end": logged[-1] / true[-1],
        "true_loss_at_the_end": true[-1],
        "failed": logged[0] / true[0] > 2,
    }


def broken() -> Numbers:
    return run(scaled=True)


def fixed() -> Numbers:
    return run(scaled=False)
