"""unscale_() on a GradScaler that has not scaled anything in this process yet: its scale is made by
the first scale(), so the call fails when the first batch of a process is skipped.
"""

import torch

Numbers = dict[str, float | bool]


def run(whole_step_skipped: bool) -> Numbers:
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    raised_at = steps = 0
    for iteration in range(1, 5):
        empty = iteration == 1  # the first batch after resuming holds no sample
        if not empty:
            scaler.scale(weight.sum()).backward()
        elif whole_step_skipped:
            continue
        try:
            scaler.unscale_(optimizer)
        except AssertionError as error:
            assert "Attempted unscale_ but _scale is None" in str(error)
            raised_at = iteration
            break
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        steps += 1
    return {"raised_at": raised_at, "steps": steps, "failed": raised_at > 0}


def broken() -> Numbers:
    return run(whole_step_skipped=False)


def fixed() -> Numbers:
    return run(whole_step_skipped=True)
