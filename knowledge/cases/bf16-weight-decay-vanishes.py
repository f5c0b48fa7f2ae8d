"""500 steps of weight decay alone on BF16 weights, lr 1e-3 and decay 0.1: rounding to nearest gives
back each weight bit for bit. In FP32 with one stochastic rounding the norm falls as it should.
"""

import torch

Numbers = dict[str, float | bool]

STEPS, LR, DECAY = 500, 1e-3, 0.1


def stochastic_round(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """FP32 to BF16, up or down by chance, so that the mean is right."""
    noise = torch.randint(0, 1 << 16, x.shape, dtype=torch.int32, generator=generator)
    bits = (x.view(torch.int32) + noise) & -65536
    return bits.view(torch.float32).bfloat16()


def run(in_fp32: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(4096, generator=generator).bfloat16())
    start = weight.detach().clone()
    optimizer = torch.optim.AdamW([weight], lr=LR, weight_decay=0.0 if in_fp32 else DECAY)
    for _ in range(STEPS):
        weight.grad = torch.zeros_like(weight)
        optimizer.step()
        if in_fp32:
            decayed = weight.detach().float() * (1 - LR * DECAY)
            weight.data.copy_(stochastic_round(decayed, generator))
    ratio = (weight.float().norm() / start.float().norm()).item()
    right = (1 - LR * DECAY) ** STEPS
    return {
        "steps": STEPS,
        "weights_that_changed": int((weight != start).sum()),
        "norm_ratio": ratio,
        "norm_ratio_expected": right,
        "failed": abs(ratio - right) > 0.01,
    }


def broken() -> Numbers:
    return run(in_fp32=False)


def fixed() -> Numbers:
    return run(in_fp32=True)
