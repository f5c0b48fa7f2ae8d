"""A 4-bit layer that computes in FP32 in front of an FP16 output layer: an error. One that computes
in FP16 inside a BF16 model: no error, and inf where BF16 has a number. One dtype for all:
neither.
"""

import torch

Numbers = dict[str, float | bool]


def quantised_linear(
    x: torch.Tensor, codes: torch.Tensor, scale: float, compute: torch.dtype
) -> torch.Tensor:
    """As a 4-bit layer does it: weights become the compute dtype, so does the input."""
    return x.to(compute) @ (codes.to(compute) * scale)


def run(compute: torch.dtype, head_dtype: torch.dtype, other: torch.dtype) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    codes = torch.randint(-7, 8, (512, 64), generator=generator)
    head = torch.randn(64, 10, generator=generator)
    x = torch.randn(4, 512, generator=generator)
    x[:, 5] = 2000.0  # massive activation: one channel, all tokens
    codes[5] = 7
    hidden = quantised_linear(x.to(torch.bfloat16), codes, 0.02, compute)
    raised = False
    try:
        torch.nn.functional.linear(hidden, head.T.to(head_dtype))
    except RuntimeError:
        raised = True
    wide = quantised_linear(50 * x.to(torch.bfloat16), codes, 0.1, other)
    return {
        "raised": raised,
        "largest_exact": (50 * x.double() @ (codes * 0.1).double()).abs().max().item(),
        "infinite": int(torch.isinf(wide).sum()),
        "failed": raised or bool(torch.isinf(wide).any()),
    }


def broken() -> Numbers:
    return run(torch.float32, torch.float16, torch.float16)


def fixed() -> Numbers:
    return run(torch.bfloat16, torch.bfloat16, torch.bfloat16)
