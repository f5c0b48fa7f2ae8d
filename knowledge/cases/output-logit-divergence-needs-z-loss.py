"""Logits that have drifted to -200: cross entropy in FP32 does not see it and does not pull them
back, BF16 logits lose their differences. With 1e-4 * log(Z)^2 in the loss they come back.
"""

import torch
from torch.nn import functional as F

Numbers = dict[str, float | bool]


def run(z_loss: float) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(64, 100, generator=generator) - 200.0  # late in a training
    labels = torch.randint(0, 100, (64,), generator=generator)
    offset = torch.nn.Parameter(torch.zeros(100))  # the bias of the head
    optimizer = torch.optim.Adam([offset], lr=1.0)
    for _ in range(800):
        now = logits + offset
        log_z = now.logsumexp(-1)
        loss = F.cross_entropy(now, labels) + z_loss * log_z.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    now = (logits + offset).detach()
    exact = now.double().softmax(-1)
    rounded = now.bfloat16().double().softmax(-1)
    error = ((rounded - exact).norm() / exact.norm()).item()
    return {
        "log_z_at_the_start": logits.logsumexp(-1).mean().item(),
        "log_z_at_the_end": now.logsumexp(-1).mean().item(),
        "spacing_of_bf16_at_200": 128 * torch.finfo(torch.bfloat16).eps,
        "error_percent_of_bf16_probabilities": 100 * error,
        "failed": error > 0.05,
    }


def broken() -> Numbers:
    return run(0.0)


def fixed() -> Numbers:
    return run(1e-4)
