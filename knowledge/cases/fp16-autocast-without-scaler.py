"""FP16 autocast with a plain backward: small activation gradients become exactly zero. With
GradScaler they do not.
"""

import torch

Numbers = dict[str, float | bool]


def run(scaled: bool) -> Numbers:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Tanh(), torch.nn.Linear(16, 16))
    x = torch.randn(64, 16)
    scaler = torch.amp.GradScaler("cpu", init_scale=65536.0, enabled=scaled)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = model(x).float().square().mean() * 1e-5  # a term with a small weight
    scaler.scale(loss).backward()
    gradient = model[0].weight.grad / scaler.get_scale()
    zeros = (gradient == 0).float().mean().item()
    return {
        "smallest_fp16": 2.0**-24,
        "share_of_zeros": zeros,
        "gradient_absmax": gradient.abs().max().item(),
        "failed": zeros > 0.1,
    }


def broken() -> Numbers:
    return run(scaled=False)


def fixed() -> Numbers:
    return run(scaled=True)
