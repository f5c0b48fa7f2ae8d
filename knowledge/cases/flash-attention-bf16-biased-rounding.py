"""Two keys share the row's maximum, so that both probabilities are exactly 1 before the division.
The sum of two BF16 values lies half-way between neighbours in half of the cases, the small rest
decides each tie in its own direction, and the rounding error of the output has a mean. With a
larger shift it has none.
"""

import torch

Numbers = dict[str, float | bool]

ROWS, KEYS = 20000, 6


def run(beta: float) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    top = 4 + 4 * torch.rand(ROWS, 1, generator=generator)
    rest = -3 - 3 * torch.rand(ROWS, KEYS - 2, generator=generator)
    scores = torch.cat((top, top, rest), 1)
    values = -(2 + 2 * torch.rand(ROWS, KEYS, generator=generator)).bfloat16().float()  # one sign
    shift = beta * scores.amax(1, keepdim=True)
    p = (scores - shift).exp()
    rounded = p.bfloat16().float()  # the operand of P·V
    product = (rounded.double() * values.double()).sum(1)
    output = product.float().bfloat16().double()
    error = output - product
    ulp = 2.0 ** (product.abs().log2().floor() - 7)
    bias = (error / ulp).mean().item()
    return {
        "probabilities_of_1_percent": 100 * (rounded == 1).float().mean().item(),
        "mean_error_in_ulp": bias,
        "errors_below_zero_percent": 100 * (error < 0).double().mean().item(),
        "failed": abs(bias) > 0.02,
    }


def broken() -> Numbers:
    return run(beta=1.0)


def fixed() -> Numbers:
    return run(beta=2.0)
