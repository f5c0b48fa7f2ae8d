"""RMSNorm with the epsilon of the input's dtype: 7.8e-3 in BF16 is more than the mean square of a
small input and shrinks the output. torch 2.4 to 2.6 chose it for eps=None; given by hand here.
"""

import torch

Numbers = dict[str, float | bool]


def run(eps: float) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    x = (0.058 * torch.randn(64, 128, generator=generator)).to(torch.bfloat16)
    y = torch.nn.functional.rms_norm(x, (128,), eps=eps)
    mean_square = x.double().square().mean().item()
    rms = y.double().square().mean().sqrt().item()
    none = torch.nn.functional.rms_norm(x, (128,), eps=None).double().square().mean().sqrt().item()
    return {
        "eps": eps,
        "mean_square": mean_square,
        "rms_of_output": rms,
        "too_small_by": 1 / rms,
        "rms_with_eps_none_here": none,
        "failed": abs(rms - 1) > 0.05,
    }


def broken() -> Numbers:
    return run(torch.finfo(torch.bfloat16).eps)


def fixed() -> Numbers:
    return run(1e-6)
