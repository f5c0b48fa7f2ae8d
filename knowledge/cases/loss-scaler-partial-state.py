"""A loss scaler that grows after 200 good steps, in a job that restarts every 150: with only the
scale in the checkpoint the count begins anew each time and the scale never grows.
"""

import torch

Numbers = dict[str, float | bool]

STEPS, RESTART, WINDOW = 1500, 150, 200


def run(whole_state: bool) -> Numbers:
    weight = torch.nn.Parameter(torch.ones(()))
    optimizer = torch.optim.SGD([weight], lr=0.0)

    def scaler_with(scale: float) -> torch.amp.GradScaler:
        return torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=WINDOW)

    scaler = scaler_with(1024.0)
    growths, restarts = 0, 0
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        scaler.scale(weight * 1.0).backward()
        scaler.step(optimizer)
        before = scaler.get_scale()
        scaler.update()
        growths += int(scaler.get_scale() > before)
        if step % RESTART == 0 and step < STEPS:
            restarts += 1
            state = scaler.state_dict()
            if whole_state:
                scaler = scaler_with(1.0)
                scaler.load_state_dict(state)
            else:
                scaler = scaler_with(state["scale"])
    return {
        "steps": STEPS,
        "restarts": restarts,
        "growths": growths,
        "scale_at_the_end": scaler.get_scale(),
        "failed": growths < STEPS // WINDOW,
    }


def broken() -> Numbers:
    return run(whole_state=False)


def fixed() -> Numbers:
    return run(whole_state=True)
