"""A = -exp(A_log) of a state-space layer in BF16: each decay rate is off by up to 0.25 %, and after
1000 time steps what is left of an input is off by several times as much.
"""

import torch

Numbers = dict[str, float | bool]


def run(upcast: bool) -> Numbers:
    # The start that Mamba uses: A = -1 ... -16, kept as its logarithm in the model's dtype.
    a_log = torch.arange(1, 17).log().to(torch.bfloat16)
    a = -torch.exp(a_log.float() if upcast else a_log)
    exact = -torch.exp(a_log.double())  # of the numbers as they are stored
    error = ((a.double() - exact) / exact).abs().max().item()
    dt = 1e-3
    left = torch.exp(1000 * dt * a.double())
    left_exact = torch.exp(1000 * dt * exact)
    state_error = ((left - left_exact) / left_exact).abs().max().item()
    stored = (exact + torch.arange(1, 17)).div(torch.arange(1, 17)).abs().max().item()
    return {
        "rate_error_percent": 100 * error,
        "state_error_percent": 100 * state_error,
        "error_of_storing_percent": 100 * stored,
        "failed": error > 1e-4,
    }


def broken() -> Numbers:
    return run(upcast=False)


def fixed() -> Numbers:
    return run(upcast=True)
