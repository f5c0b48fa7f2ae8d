"""scaler.step() twice without update(): the second call raises."""

import torch

Numbers = dict[str, float | bool]


def run(update: bool) -> Numbers:
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    raised_at = 0
    for iteration in range(1, 4):
        scaler.scale(weight.sum()).backward()
        try:
            scaler.step(optimizer)
        except RuntimeError as error:
            assert "has already been called since the last update()" in str(error)
            raised_at = iteration
            break
        if update:
            scaler.update()
        optimizer.zero_grad()
    return {"raised_at": raised_at, "scale": scaler.get_scale(), "failed": raised_at > 0}


def broken() -> Numbers:
    return run(update=False)


def fixed() -> Numbers:
    return run(update=True)
