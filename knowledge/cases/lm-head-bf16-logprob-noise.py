"""The same hidden states and weights, both BF16: logits that are stored in BF16 move log-probs by
hundredths, an FP32 product does not.
"""

import torch

Numbers = dict[str, float | bool]

TOKENS, WIDTH, VOCABULARY = 128, 512, 4096


def run(dtype: torch.dtype) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(TOKENS, WIDTH, generator=generator).bfloat16()
    weight = (6 * torch.randn(VOCABULARY, WIDTH, generator=generator) / WIDTH**0.5).bfloat16()
    exact = (hidden.double() @ weight.double().T).log_softmax(-1)
    logits = hidden.to(dtype) @ weight.to(dtype).T
    log_probs = logits.float().log_softmax(-1)
    token = torch.multinomial(exact.exp().float(), 1, generator=generator)
    gap = (log_probs - exact).gather(1, token).abs()
    return {
        "largest_logit": logits.abs().max().item(),
        "mean_gap": gap.mean().item(),
        "largest_gap": gap.max().item(),
        "gap_of_128_tokens": (log_probs - exact).gather(1, token).sum().abs().item(),
        "failed": bool(gap.max() > 0.01),
    }


def broken() -> Numbers:
    return run(torch.bfloat16)


def fixed() -> Numbers:
    return run(torch.float32)
