"""An overflow of the forward does not care for the loss scale: GradScaler halves it far below 1
and never steps.
"""

import torch

Numbers = dict[str, float | bool]


def run(dtype: torch.dtype) -> Numbers:
    weight = torch.nn.Parameter(torch.full((1,), 300.0))
    optimizer = torch.optim.SGD([weight], lr=1e-9)
    scaler = torch.amp.GradScaler("cpu")
    stepped = 0
    for _ in range(40):
        before = scaler.get_scale()
        hidden = (weight * 300).to(dtype)  # 90000: above 65504
        scaler.scale(hidden.float().square().mean()).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        stepped += scaler.get_scale() >= before
    return {
        "steps": 40,
        "stepped": stepped,
        "final_scale": scaler.get_scale(),
        "failed": stepped == 0,
    }


def broken() -> Numbers:
    return run(torch.float16)


def fixed() -> Numbers:
    return run(torch.bfloat16)
