"""The two input weights of one SwiGLU channel have become equal: its output grows with the square
of the input, far past a scale from earlier steps. A scale for each channel keeps the rest intact.
"""

import torch

Numbers = dict[str, float | bool]


def to_e4m3(x: torch.Tensor, largest: torch.Tensor) -> torch.Tensor:
    scale = largest.clamp(min=1e-12) / 448
    return (x / scale).clamp(-448, 448).to(torch.float8_e4m3fn).float() * scale


def run(per_channel: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(256, 512, generator=generator)
    w1 = torch.randn(128, 512, generator=generator) / 512**0.5
    w2 = torch.randn(128, 512, generator=generator) / 512**0.5
    w3 = torch.randn(64, 128, generator=generator) / 128**0.5
    early = torch.nn.functional.silu(x @ w1.T) * (x @ w2.T)
    w1[0] *= 10  # late in training: one channel has aligned and grown
    w2[0] = w1[0]
    late = torch.nn.functional.silu(x @ w1.T) * (x @ w2.T)
    largest = late.abs().amax(0) if per_channel else early.abs().max()
    got, true = to_e4m3(late, largest) @ w3.T, late @ w3.T
    error = ((got - true).norm() / true.norm()).item()
    return {
        "largest_early": early.abs().max().item(),
        "largest_late": late.abs().max().item(),
        "error": error,
        "failed": error > 0.1,
    }


def broken() -> Numbers:
    return run(per_channel=False)


def fixed() -> Numbers:
    return run(per_channel=True)
