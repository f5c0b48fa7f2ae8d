"""A scaler that settled at 256 starts at 65536 again when its state is not in the checkpoint:
eight skipped steps.
"""

import copy

import torch

Numbers = dict[str, float | bool]


def skipped_after_resume(scaler: torch.amp.GradScaler) -> int:
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    skipped = 0
    for _ in range(20):
        before = scaler.get_scale()
        # A gradient of 200 stands in an FP16 tensor while it is scaled: 200 * 256 fits,
        # 200 * 512 = 102400 does not.
        loss = (weight * 1.0).half().float() * 200
        scaler.scale(loss).backward()
        weight.grad = weight.grad.half().float()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        skipped += scaler.get_scale() < before
    return skipped


def run(saved: bool) -> Numbers:
    first = torch.amp.GradScaler("cpu")
    skipped_after_resume(first)
    checkpoint = {"scaler": copy.deepcopy(first.state_dict())} if saved else {}
    resumed = torch.amp.GradScaler("cpu")
    if "scaler" in checkpoint:
        resumed.load_state_dict(checkpoint["scaler"])
    skipped = skipped_after_resume(resumed)
    return {
        "settled_scale": first.get_scale(),
        "initial_scale": 65536.0,
        "skipped_after_resume": skipped,
        "failed": skipped > 0,
    }


def broken() -> Numbers:
    return run(saved=False)


def fixed() -> Numbers:
    return run(saved=True)
