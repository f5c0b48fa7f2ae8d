"""Two engines with equal weights that sum in another order, in BF16 and in FP16: the gap of their
log-probs is a question of the significant bits.
"""

import torch

Numbers = dict[str, float | bool]

SEQUENCES, TOKENS, WIDTH, VOCABULARY, LAYERS = 4, 512, 128, 256, 8


def log_probs(
    x: torch.Tensor, layers: list[torch.Tensor], head: torch.Tensor, parts: int
) -> torch.Tensor:
    for weight in layers:
        chunks = zip(x.chunk(parts, -1), weight.chunk(parts, 0), strict=True)
        product = sum((a @ b for a, b in chunks), torch.zeros((), dtype=x.dtype))
        x = x + torch.nn.functional.silu(product)
    return (x @ head).float().log_softmax(-1)


def run(dtype: torch.dtype) -> Numbers:
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    layers = [(random(WIDTH, WIDTH) / WIDTH**0.5).to(dtype) for _ in range(LAYERS)]
    head = (2 * random(WIDTH, VOCABULARY) / WIDTH**0.5).to(dtype)
    x = random(SEQUENCES * TOKENS, WIDTH).to(dtype)
    rollout, trainer = (log_probs(x, layers, head, parts) for parts in (4, 1))
    token = torch.multinomial(rollout.exp(), 1, generator=generator)
    gap = (trainer - rollout).gather(1, token)[:, 0]
    k3 = gap.exp() - 1 - gap
    return {
        "mean_gap": gap.abs().mean().item(),
        "largest_gap": gap.abs().max().item(),
        "k3_kl": k3.mean().item(),
        "sequence_gap": gap.view(SEQUENCES, TOKENS).sum(1).abs().max().item(),
        "failed": bool(gap.abs().max() > 0.1),
    }


def broken() -> Numbers:
    return run(torch.bfloat16)


def fixed() -> Numbers:
    return run(torch.float16)
