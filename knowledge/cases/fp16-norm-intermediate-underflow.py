"""The 3-norm of the FP16 vector [1e-4]: its backward divides by a power that underflows to 0."""

import torch

Numbers = dict[str, float | bool]


def run(upcast: bool) -> Numbers:
    x = torch.tensor([1e-4], dtype=torch.float16, requires_grad=True)
    norm = (x.float() if upcast else x).norm(3)
    norm.backward()
    return {
        "x": x.item(),
        "cube": 1e-12,
        "norm": norm.item(),
        "gradient": x.grad.item(),
        "failed": not bool(torch.isfinite(x.grad).all()),
    }


def broken() -> Numbers:
    return run(upcast=False)


def fixed() -> Numbers:
    return run(upcast=True)
