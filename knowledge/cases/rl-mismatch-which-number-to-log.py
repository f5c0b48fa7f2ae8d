"""Log-probabilities of the same tokens from the same hidden states, with logits in FP32 on one side
and rounded to BF16 on the other.
"""

import torch

Numbers = dict[str, float | bool]


def run(engine: torch.dtype) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(256, 64, generator=generator)
    head = torch.randn(64, 4096, generator=generator) / 2
    tokens = torch.multinomial((hidden @ head).softmax(-1), 1, generator=generator)

    def logprob(logits: torch.Tensor) -> torch.Tensor:
        return logits.float().log_softmax(-1).gather(-1, tokens).squeeze(-1)

    trainer = logprob(hidden @ head)
    # The engine adds up in another order, as other kernels do.
    flipped = hidden.flip(-1) @ head.flip(0)
    d = (trainer - logprob(flipped.to(engine))).double()
    k3 = (d.exp() - 1 - d).mean().item()
    return {
        "mean_abs": d.abs().mean().item(),
        "k3": k3,
        "sequence_log_ratio": abs(d.sum().item()),
        "failed": k3 > 1e-6,
    }


def broken() -> Numbers:
    return run(torch.bfloat16)


def fixed() -> Numbers:
    return run(torch.float32)
