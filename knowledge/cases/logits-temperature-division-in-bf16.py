"""Temperature on BF16 logits: the quotient is rounded once more. After a cast to FP32 it is not."""

import torch

Numbers = dict[str, float | bool]


def run(cast_first: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    logits = (6 * torch.randn(256, 4096, generator=generator)).bfloat16()
    temperature = 0.7
    exact = (logits.double() / temperature).log_softmax(-1)
    quotient = logits.float() / temperature if cast_first else logits / temperature
    log_probs = quotient.float().log_softmax(-1)
    token = torch.multinomial(exact.exp().float(), 1, generator=generator)
    gap = (log_probs - exact).gather(1, token).abs()
    untempered = (logits / 1.0).float().log_softmax(-1) - logits.double().log_softmax(-1)
    return {
        "mean_gap": gap.mean().item(),
        "largest_gap": gap.max().item(),
        "largest_gap_at_temperature_1": untempered.abs().max().item(),
        "failed": bool(gap.max() > 0.01),
    }


def broken() -> Numbers:
    return run(cast_first=False)


def fixed() -> Numbers:
    return run(cast_first=True)
