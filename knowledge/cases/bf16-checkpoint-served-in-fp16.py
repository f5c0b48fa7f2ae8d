"""A block with one large activation, as BF16 training allows: in FP16 it is inf, the norm makes NaN
logits, and greedy decoding returns token 0 for ever. In BF16 it generates.
"""

import torch

Numbers = dict[str, float | bool]


def run(dtype: torch.dtype) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    down = torch.randn(64, 256, generator=generator) / 16
    down[7] = 100.0  # an outlier dimension
    head = torch.randn(100, 64, generator=generator)
    hidden = 6 * torch.rand(8, 256, generator=generator)
    x = hidden.to(dtype) @ down.to(dtype).T
    x = x * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6).to(dtype)
    logits = (x @ head.to(dtype).T).float()
    token = logits.argmax(-1)
    try:
        torch.multinomial(logits.softmax(-1), 1, generator=generator)
        sampled = True
    except RuntimeError:
        sampled = False
    return {
        "largest_activation": (hidden @ down.T).abs().max().item(),
        "nan_logits_percent": 100 * torch.isnan(logits).float().mean().item(),
        "tokens_0_percent": 100 * (token == 0).float().mean().item(),
        "sampling_worked": sampled,
        "failed": bool(torch.isnan(logits).any()),
    }


def broken() -> Numbers:
    return run(torch.float16)


def fixed() -> Numbers:
    return run(torch.bfloat16)
