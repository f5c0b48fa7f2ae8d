"""Two BF16 engines with equal weights that sum in another order: log-probs differ, and the ratio of
the first update is not 1. With the trainer's own log-probs and a truncated weight it is.
"""

import torch

Numbers = dict[str, float | bool]

TOKENS, WIDTH, VOCABULARY, LAYERS = 512, 256, 512, 8


def log_probs(
    x: torch.Tensor, layers: list[torch.Tensor], head: torch.Tensor, parts: int
) -> torch.Tensor:
    """The policy in BF16; a kernel that splits its products in `parts` rounds each partial sum."""
    for weight in layers:
        chunks = zip(x.chunk(parts, -1), weight.chunk(parts, 0), strict=True)
        product = sum((a @ b for a, b in chunks), torch.zeros((), dtype=x.dtype))
        x = x + torch.nn.functional.silu(product)
    return (x @ head).float().log_softmax(-1)


def run(corrected: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    layers = [(random(WIDTH, WIDTH) / WIDTH**0.5).bfloat16() for _ in range(LAYERS)]
    head = (random(WIDTH, VOCABULARY) / WIDTH**0.5).bfloat16()
    x = random(TOKENS, WIDTH).bfloat16()
    engine = log_probs(x, layers, head, parts=4)
    trainer = log_probs(x, layers, head, parts=1)
    token = torch.multinomial(engine.exp(), 1, generator=generator)
    rollout, old = engine.gather(1, token)[:, 0], trainer.gather(1, token)[:, 0]
    new = old  # the first update: nothing has changed yet
    ratio = (new - (old if corrected else rollout)).exp()
    weight = (old - rollout).exp().clamp(max=2.0) if corrected else torch.ones(TOKENS)
    clipped = (ratio - 1).abs() > 0.2
    return {
        "mean_gap": (old - rollout).abs().mean().item(),
        "largest_gap": (old - rollout).abs().max().item(),
        "gap_of_the_sequence": (old - rollout).sum().abs().item(),
        "largest_ratio": ratio.max().item(),
        "clipped_tokens": int(clipped.sum()),
        "largest_weight": weight.max().item(),
        "failed": bool((ratio != 1).any()),
    }


def broken() -> Numbers:
    return run(corrected=False)


def fixed() -> Numbers:
    return run(corrected=True)
