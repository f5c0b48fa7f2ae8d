"""The gradient of a replicated norm weight on a 2 x 4 mesh (data x tensor parallel): summed in BF16
over the tensor-parallel ranks and in FP32 over the others, as FSDP2 does, and in FP32 over both.
"""

import torch

Numbers = dict[str, float | bool]

DATA, TENSOR = 2, 4


def summed(parts: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    total = torch.zeros_like(parts[0], dtype=dtype)
    for part in parts:
        total = total + part.to(dtype)
    return total


def run(dtype: torch.dtype) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    gradients = torch.randn(DATA, TENSOR, 1024, generator=generator).bfloat16()
    right = gradients.double().sum((0, 1))
    inner = torch.stack([summed(row, dtype) for row in gradients])
    got = summed(inner, torch.float32).double()
    # 1 on one rank and 2^-9 on another: BF16 has no 1 + 2^-9.
    witness = summed(torch.tensor([1.0, 2.0**-9]).bfloat16(), dtype).item()
    error = ((got - right).norm() / right.norm()).item()
    return {
        "witness": witness,
        "witness_right": 1 + 2.0**-9,
        "error_percent": 100 * error,
        "failed": witness != 1 + 2.0**-9,
    }


def broken() -> Numbers:
    return run(torch.bfloat16)


def fixed() -> Numbers:
    return run(torch.float32)
