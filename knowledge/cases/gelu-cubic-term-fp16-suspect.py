"""The tanh form of GELU written out in FP16: x**3 is infinite from 40.4 on, which tanh hides in the
forward pass; from 148 on the derivative is inf * 0 = NaN. F.gelu computes inside in FP32.
"""

import torch

Numbers = dict[str, float | bool]


def written_out(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def built_in(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(x, approximate="tanh")


def run(own: bool) -> Numbers:
    x = torch.arange(1, 301, dtype=torch.float16, requires_grad=True)
    cube_infinite = torch.isinf(x.detach() ** 3).nonzero() if own else None
    y = written_out(x) if own else built_in(x)
    y.sum().backward()
    assert x.grad is not None
    bad = torch.isnan(x.grad)
    return {
        "cube_infinite_from": int(cube_infinite[0]) + 1 if cube_infinite is not None else 0,
        "outputs_not_finite": int((~torch.isfinite(y)).sum()),
        "gradients_nan": int(bad.sum()),
        "gradient_nan_from": int(bad.nonzero()[0]) + 1 if bad.any() else 0,
        "failed": bool(bad.any()),
    }


def broken() -> Numbers:
    return run(own=True)


def fixed() -> Numbers:
    return run(own=False)
