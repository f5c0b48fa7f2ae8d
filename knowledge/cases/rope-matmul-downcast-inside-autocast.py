"""`.float() @ .float()` inside autocast is a BF16 product: image positions from 65536 on get one
angle. With autocast off around it they differ.
"""

import torch

Numbers = dict[str, float | bool]

OFFSET, LENGTH, WIDTH = 65536, 256, 64


def run(autocast_off: bool) -> Numbers:
    inv_freq = 1.0 / 10000 ** (torch.arange(0, WIDTH, 2).float() / WIDTH)
    positions = torch.arange(OFFSET, OFFSET + LENGTH)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with torch.autocast("cpu", enabled=not autocast_off, dtype=torch.bfloat16):
            angles = positions[:, None].float() @ inv_freq[None, :].float()
    exact = positions[:, None].double() * inv_freq.double()
    error = (angles.double().cos() - exact.cos()).abs().max().item()
    distinct = len(torch.unique(angles.float(), dim=0))
    return {
        "bits_of_angles": 8 * angles.element_size(),
        "positions": LENGTH,
        "distinct_rows_of_angles": distinct,
        "largest_cos_error": error,
        "failed": distinct < LENGTH,
    }


def broken() -> Numbers:
    return run(autocast_off=False)


def fixed() -> Numbers:
    return run(autocast_off=True)
