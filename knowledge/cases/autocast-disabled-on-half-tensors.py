"""300 squared in a block with autocast disabled: inf while the tensor is FP16, 90000 after
.float().
"""

import torch

Numbers = dict[str, float | bool]


def run(cast: bool) -> Numbers:
    layer = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.constant_(layer.weight, 300.0)
    with torch.autocast("cpu", dtype=torch.float16):
        h = layer(torch.ones(1, 1))
        with torch.autocast("cpu", enabled=False):
            energy = (h.float() if cast else h).pow(2).sum()
    return {
        "h": h.item(),
        "bytes_an_element": h.element_size(),
        "energy": energy.item(),
        "failed": not bool(torch.isfinite(energy)),
    }


def broken() -> Numbers:
    return run(cast=False)


def fixed() -> Numbers:
    return run(cast=True)
