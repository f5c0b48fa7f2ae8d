"""SGD with lr 0.1 on a gradient of 1.0: a plain step after scaler.scale() moves the weight by
6553.6.
"""

import torch

Numbers = dict[str, float | bool]


def run(through_scaler: bool) -> Numbers:
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(weight.sum()).backward()
    if through_scaler:
        scaler.step(optimizer)
        scaler.update()
    else:
        optimizer.step()
    moved = weight.abs().item()
    return {"scale": 65536.0, "right_move": 0.1, "moved": moved, "failed": moved > 1.0}


def broken() -> Numbers:
    return run(through_scaler=False)


def fixed() -> Numbers:
    return run(through_scaler=True)
