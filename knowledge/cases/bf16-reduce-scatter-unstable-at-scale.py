"""One ring reduction of gradients in BF16 over 8 and over 512 ranks: every hop rounds the running
sum again. Summed in FP32 the same BF16 gradients keep their mean.
"""

import torch

Numbers = dict[str, float | bool]

ELEMENTS = 4096


def error(gradients: torch.Tensor, dtype: torch.dtype) -> float:
    total = torch.zeros(ELEMENTS, dtype=dtype)
    for gradient in gradients:
        total = total + gradient.to(dtype)
    right = gradients.double().sum(0)
    return ((total.double() - right).norm() / right.norm()).item()


def run(dtype: torch.dtype) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    common = 1e-3 * torch.randn(ELEMENTS, generator=generator)
    noise = 1e-3 * torch.randn(512, ELEMENTS, generator=generator)
    gradients = (common + noise).bfloat16()  # what each rank has computed
    few, many = error(gradients[:8], dtype), error(gradients, dtype)
    return {
        "error_percent_8_ranks": 100 * few,
        "error_percent_96_ranks": 100 * error(gradients[:96], dtype),
        "error_percent_512_ranks": 100 * many,
        "failed": many > 0.01,
    }


def broken() -> Numbers:
    return run(torch.bfloat16)


def fixed() -> Numbers:
    return run(torch.float32)
