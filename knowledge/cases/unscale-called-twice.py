"""unscale_ on every micro-batch of an accumulation raises at the second one; once before the step
does not.
"""

import torch

Numbers = dict[str, float | bool]


def run(every_micro_batch: bool) -> Numbers:
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    micro_batches = 4
    raised_at = 0
    for i in range(1, micro_batches + 1):
        scaler.scale(weight.sum() / micro_batches).backward()
        if every_micro_batch or i == micro_batches:
            try:
                scaler.unscale_(optimizer)
            except RuntimeError:
                raised_at = i
                break
    if not raised_at:
        scaler.step(optimizer)
        scaler.update()
    return {
        "micro_batches": micro_batches,
        "raised_at": raised_at,
        "gradient": weight.grad[0].item(),
        "failed": raised_at > 0,
    }


def broken() -> Numbers:
    return run(every_micro_batch=True)


def fixed() -> Numbers:
    return run(every_micro_batch=False)
