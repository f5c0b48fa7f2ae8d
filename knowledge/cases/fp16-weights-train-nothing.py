"""FP16 weights without an FP32 copy at a fine-tuning rate of 1e-5: after 200 steps of Adam the
large ones are bit for bit what they were. FP32 weights move by the full 200 updates.
"""

import torch

Numbers = dict[str, float | bool]


def run(dtype: torch.dtype) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    magnitude = 0.05 + 0.95 * torch.rand(4096, generator=generator)
    sign = torch.where(torch.rand(4096, generator=generator) < 0.5, -1.0, 1.0)
    weight = torch.nn.Parameter((magnitude * sign).half().to(dtype))
    start = weight.detach().clone()
    optimizer = torch.optim.Adam([weight], lr=1e-5, eps=1e-4)
    for _ in range(200):
        optimizer.zero_grad()
        weight.grad = torch.full_like(weight, 0.5)
        optimizer.step()
    unchanged = (weight.detach() == start).float().mean().item()
    return {
        "steps": 200,
        "half_ulp_at_0_3_in_fp16": 2.0**-13,
        "unchanged_percent": 100 * unchanged,
        "mean_change": (start - weight.detach()).float().mean().item(),
        "exact_change": 200 * 1e-5,
        "failed": unchanged > 0.5,
    }


def broken() -> Numbers:
    return run(torch.float16)


def fixed() -> Numbers:
    return run(torch.float32)
