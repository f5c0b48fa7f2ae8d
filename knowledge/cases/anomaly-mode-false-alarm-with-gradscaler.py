"""A scale that grows until gradients overflow, which costs one skipped step. Under anomaly mode the
same overflow raises, and the training ends there; anomaly mode with a small fixed scale does not.
"""

import warnings

import torch

Numbers = dict[str, float | bool]

STEPS = 60


def run(anomaly: bool, scale: float, growth_interval: int) -> tuple[int, int, float, bool]:
    generator = torch.Generator().manual_seed(0)
    weight = torch.nn.Parameter(0.2 * torch.randn(32, 32, generator=generator))
    head = torch.nn.Parameter(torch.randn(32, 1, generator=generator))
    optimizer = torch.optim.SGD([weight, head], lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=growth_interval)
    done = skipped = 0
    raised = False
    for _ in range(STEPS):
        x = torch.randn(64, 32, generator=generator)
        y = x[:, :1] + torch.randn(64, 1, generator=generator)
        optimizer.zero_grad()
        with warnings.catch_warnings(), torch.autograd.set_detect_anomaly(anomaly):
            warnings.simplefilter("ignore")
            hidden = (0.02 * x).half() @ weight.half()
            normed = torch.nn.functional.layer_norm(hidden, (32,))
            loss = (normed @ head.half() - y).float().square().mean()
            try:
                scaler.scale(loss).backward()
            except RuntimeError as error:
                raised = "returned nan values in its" in str(error)
                break
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        skipped += int(scaler.get_scale() < before)
        done += 1
    return done, skipped, loss.item(), raised


def broken() -> Numbers:
    done, _, _, raised = run(True, 64.0, 5)
    without, skips, loss, _ = run(False, 64.0, 5)
    return {
        "steps_done": done,
        "steps_without_anomaly_mode": without,
        "skipped_without_anomaly_mode": skips,
        "loss_without_anomaly_mode": loss,
        "failed": raised,
    }


def fixed() -> Numbers:
    done, skipped, loss, raised = run(True, 64.0, 10**9)
    return {
        "steps_done": done,
        "steps_without_anomaly_mode": STEPS,
        "skipped_without_anomaly_mode": skipped,
        "loss_without_anomaly_mode": loss,
        "failed": raised,
    }
