"""One batch overflows in FP16 before a BatchNorm: GradScaler skips the step, the weights stay
finite, and the running statistics are NaN for good.
"""

import torch
from torch import nn

Numbers = dict[str, float | bool]


def run(normalised: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    skipped = 0
    finite_losses = 0
    for step in range(10):
        x = torch.randn(32, 8, generator=generator)
        if step == 4:
            x *= 1e5  # raw sensor values that nobody divided by their range
        if normalised:
            x = x / x.std()
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = model(x).float().square().mean()
        finite_losses += bool(torch.isfinite(loss))
        before = scaler.get_scale()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        skipped += scaler.get_scale() < before
    bad_weights = sum(int((~torch.isfinite(p)).sum()) for p in model.parameters())
    bad_statistics = sum(
        int((~torch.isfinite(b)).sum()) for b in model.buffers() if b.is_floating_point()
    )
    model.eval()
    with torch.no_grad():
        nan_in_eval = int(torch.isnan(model(torch.randn(32, 8, generator=generator))).sum())
    return {
        "skipped_steps": skipped,
        "finite_losses": finite_losses,
        "nonfinite_weights": bad_weights,
        "nonfinite_running_statistics": bad_statistics,
        "nan_of_32_eval_outputs": nan_in_eval,
        "failed": nan_in_eval > 0,
    }


def broken() -> Numbers:
    return run(normalised=False)


def fixed() -> Numbers:
    return run(normalised=True)
