"""A sum over K = 4096 products in an accumulator of 14 bits, as emulated here, loses small
products and comes out too small. Moved to FP32 every 128 products it does not.
"""

import torch

Numbers = dict[str, float | bool]


def truncate(x: torch.Tensor, bits: int) -> torch.Tensor:
    mantissa, exponent = torch.frexp(x)
    step = 2.0**bits
    return torch.ldexp(torch.trunc(mantissa * step) / step, exponent)


def run(promote_every: int) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    k, instruction = 4096, 32  # one tensor core instruction adds 32 products
    # Values above 0 on average, as behind an activation function.
    a = torch.rand(64, k, generator=generator).to(torch.float8_e4m3fn).double()
    b = torch.rand(k, 64, generator=generator).to(torch.float8_e4m3fn).double()
    true = a @ b
    total = torch.zeros_like(true)
    accumulator = torch.zeros_like(true)
    for start in range(0, k, instruction):
        end = start + instruction
        accumulator = truncate(accumulator + a[:, start:end] @ b[start:end], 14)
        if end % promote_every == 0:
            total += accumulator
            accumulator = torch.zeros_like(true)
    error = ((total - true) / true).abs()
    return {
        "k": k,
        "largest_error_percent": 100 * error.max().item(),
        "mean_shift_percent": 100 * ((total - true) / true).mean().item(),
        "failed": error.max().item() > 1e-3,
    }


def broken() -> Numbers:
    return run(promote_every=4096)


def fixed() -> Numbers:
    return run(promote_every=128)
