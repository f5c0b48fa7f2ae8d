"""1024 coordinates between -1 and 1 in BF16: near the ends, many neighbours are the same number. A
function sampled there is wrong at the edges and right in the middle. FP32 keeps all of them.
"""

import torch

Numbers = dict[str, float | bool]

RESOLUTION = 1024


def run(dtype: torch.dtype) -> Numbers:
    exact = torch.linspace(-1, 1, RESOLUTION, dtype=torch.float64)
    used = exact.to(dtype).double()
    repeated = (used[1:] == used[:-1]).double()
    # A positional encoding of that resolution: 8 octaves.
    octave = 2.0**8 * torch.pi
    error = (torch.sin(octave * used) - torch.sin(octave * exact)).abs()
    edge, middle = exact.abs() > 0.5, exact.abs() < 0.05
    return {
        "different": used.unique().numel(),
        "repeated_percent": 100 * repeated.mean().item(),
        "encoding_error_at_edge": error[edge].mean().item(),
        "encoding_error_in_middle": error[middle].mean().item(),
        "failed": used.unique().numel() < RESOLUTION,
    }


def broken() -> Numbers:
    return run(torch.bfloat16)


def fixed() -> Numbers:
    return run(torch.float32)
