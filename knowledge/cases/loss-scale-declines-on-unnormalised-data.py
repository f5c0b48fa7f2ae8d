"""A small denoiser in FP16 on pixels of 0 to 255 and of -1 to 1: the loss scale goes below 1 on the
former, and stays up on the latter.
"""

import math

import torch
from torch import nn

Numbers = dict[str, float | bool]


def run(normalised: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.SiLU(), nn.Linear(256, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    scaler = torch.amp.GradScaler("cpu", growth_interval=20)
    skipped = 0
    finite_losses = 0
    for _ in range(60):
        pixels = torch.randint(0, 256, (16, 64), generator=generator).float()
        x = pixels / 127.5 - 1 if normalised else pixels
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            predicted = model(x)
            # Summed over the pixels, as a variational bound is.
            loss = (predicted.float() - x).square().sum(-1).mean()
        finite_losses += bool(torch.isfinite(loss))
        before = scaler.get_scale()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        skipped += scaler.get_scale() < before
    return {
        "input_absmax": 1.0 if normalised else 255.0,
        "steps": 60,
        "finite_losses": finite_losses,
        "last_loss": loss.item(),
        "skipped": skipped,
        "lg_loss_scale": math.log2(scaler.get_scale()),
        "failed": scaler.get_scale() < 128,
    }


def broken() -> Numbers:
    return run(normalised=False)


def fixed() -> Numbers:
    return run(normalised=True)
