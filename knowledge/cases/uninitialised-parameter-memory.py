"""torch.empty returns whatever was in memory; here the memory is filled with NaN first, as torch
does itself when it fills uninitialised memory for debugging.
"""

import torch

Numbers = dict[str, float | bool]


class Scale(torch.nn.Module):
    def __init__(self, initialise: bool) -> None:
        super().__init__()
        self.gain = torch.nn.Parameter(torch.empty(16))
        if initialise:
            torch.nn.init.ones_(self.gain)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.gain


def run(initialise: bool) -> Numbers:
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)  # fills uninitialised memory with NaN
    try:
        y = Scale(initialise)(torch.ones(2, 16))
    finally:
        torch.use_deterministic_algorithms(before)
    return {
        "parameters": 16,
        "nan_outputs": int(y.isnan().sum()),
        "failed": bool(y.isnan().any()),
    }


def broken() -> Numbers:
    return run(initialise=False)


def fixed() -> Numbers:
    return run(initialise=True)
