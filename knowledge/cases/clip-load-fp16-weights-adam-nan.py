"""A small two-tower model in FP16, as clip.load returns it on a GPU: finite loss and gradients, one
Adam step, NaN outputs. After .float() the same step is fine.
"""

import torch
from torch import nn

Numbers = dict[str, float | bool]


def run(dtype: torch.dtype) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    image, words, tower = nn.Linear(32, 16), nn.Embedding(100, 16), nn.Linear(16, 16)
    parts = nn.ModuleList([image, words, tower])
    with torch.no_grad():
        for parameter in parts.parameters():
            parameter.copy_(0.1 * torch.randn(parameter.shape, generator=generator))
    parts.to(dtype)
    optimizer = torch.optim.Adam(parts.parameters(), lr=1e-5)
    x = torch.randn(8, 32, generator=generator).to(dtype)
    tokens = torch.randint(100, (8,), generator=generator)

    def logits() -> torch.Tensor:
        a, b = image(x), tower(words(tokens))
        a, b = a / a.norm(dim=-1, keepdim=True), b / b.norm(dim=-1, keepdim=True)
        return 14 * a @ b.T

    before = logits()
    loss = nn.functional.cross_entropy(before.float(), torch.arange(8))
    loss.backward()
    gradients = [p.grad for p in parts.parameters() if p.grad is not None]
    finite = all(bool(torch.isfinite(g).all()) for g in gradients)
    optimizer.step()
    bad = sum(int((~torch.isfinite(p)).sum()) for p in parts.parameters())
    return {
        "gradients_finite": finite,
        "loss_before": loss.item(),
        "weights": sum(p.numel() for p in parts.parameters()),
        "weights_not_finite": bad,
        "outputs_nan": int(torch.isnan(logits()).sum()),
        "failed": bad > 0,
    }


def broken() -> Numbers:
    return run(torch.float16)


def fixed() -> Numbers:
    return run(torch.float32)
