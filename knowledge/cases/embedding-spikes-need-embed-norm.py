"""A rare token whose embedding has grown 300 times as large as the others': the residual
stream behind it does too. A LayerNorm behind the embedding hides it from everything that follows.
"""

import torch
from torch import nn

Numbers = dict[str, float | bool]


def run(normed: bool) -> Numbers:
    torch.manual_seed(0)
    embedding = nn.Embedding(100, 64)
    norm: nn.Module = nn.LayerNorm(64) if normed else nn.Identity()
    first = nn.Linear(64, 256)
    second = nn.Linear(256, 64)
    with torch.no_grad():
        embedding.weight *= 0.02
        embedding.weight[7] *= 300
    common = torch.arange(8, 72).reshape(8, 8)
    rare = common.clone()
    rare[0, 0] = 7

    def step(tokens: torch.Tensor) -> tuple[float, float]:
        embedding.zero_grad()
        first.zero_grad()
        h = norm(embedding(tokens))
        out = h + second(torch.relu(first(h)))
        out.square().mean().backward()
        assert first.weight.grad is not None
        return out.abs().max().item(), first.weight.grad.norm().item()

    usual_output, usual_gradient = step(common)
    rare_output, rare_gradient = step(rare)
    return {
        "output_absmax": usual_output,
        "output_absmax_with_rare_token": rare_output,
        "gradient_norm": usual_gradient,
        "gradient_norm_with_rare_token": rare_gradient,
        "gradient_ratio": rare_gradient / usual_gradient,
        "failed": rare_gradient > 30 * usual_gradient,
    }


def broken() -> Numbers:
    return run(normed=False)


def fixed() -> Numbers:
    return run(normed=True)
