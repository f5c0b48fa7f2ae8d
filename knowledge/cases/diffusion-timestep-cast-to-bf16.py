"""Time steps of a flow-matching schedule (0 to 1000, shift 5, 50 steps) cast to BF16 in front of
the sinusoidal embedding: they move by up to 2, and the embedding belongs to another time.
"""

import torch

Numbers = dict[str, float | bool]


def schedule(steps: int, shift: float) -> torch.Tensor:
    sigma = torch.linspace(1, 0, steps + 1)[:-1]
    return 1000 * shift * sigma / (1 + (shift - 1) * sigma)


def embed(t: torch.Tensor, dim: int = 256) -> torch.Tensor:
    t = t.float()
    frequency = 10_000 ** (-torch.arange(dim // 2) / (dim // 2))
    angle = t[:, None] * frequency[None]
    return torch.cat([angle.cos(), angle.sin()], -1).to(torch.bfloat16)


def run(dtype: torch.dtype) -> Numbers:
    t = schedule(50, 5.0)
    used = t.to(dtype)
    exact = embed(t).double()
    got = embed(used).double()
    error = ((got - exact).norm(dim=-1) / exact.norm(dim=-1)).max().item()
    return {
        "different_of_1000": torch.arange(1000.0).to(dtype).unique().numel(),
        "t_998_is": torch.tensor(998.3897).to(dtype).item(),
        "largest_change_of_t": (used.double() - t.double()).abs().max().item(),
        "embedding_error_percent": 100 * error,
        "failed": error > 0.01,
    }


def broken() -> Numbers:
    return run(torch.bfloat16)


def fixed() -> Numbers:
    return run(torch.float32)
