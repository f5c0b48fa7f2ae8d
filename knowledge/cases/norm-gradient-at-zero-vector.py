"""sqrt(sum of squares) at exactly zero has gradient inf * 0 = NaN; in FP16 vectors near 1e-4 are
already zero there.
"""

import torch

Numbers = dict[str, float | bool]


def run(safe: bool) -> Numbers:
    a = torch.tensor([[1.0, 2.0], [1.0, 1e-4]], dtype=torch.float16, requires_grad=True)
    b = torch.tensor([[0.0, 0.0], [1.0, 0.0]], dtype=torch.float16)
    if safe:
        difference = (a - b).float()
        distance = torch.sqrt(difference.square().sum(-1) + 1e-12)
    else:
        difference = a - b
        distance = torch.sqrt(difference.square().sum(-1))
    distance.sum().backward()
    return {
        "square_in_fp16": torch.tensor(1e-4, dtype=torch.float16).square().item(),
        "loss": distance.sum().item(),
        "gradient_nan": int(torch.isnan(a.grad).sum()),
        "failed": not bool(torch.isfinite(a.grad).all()),
    }


def broken() -> Numbers:
    return run(safe=False)


def fixed() -> Numbers:
    return run(safe=True)
