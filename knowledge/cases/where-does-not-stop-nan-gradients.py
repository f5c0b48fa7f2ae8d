"""torch.where picks the finite branch in forward; backward multiplies the other branch's infinite
derivative by 0, which is NaN.
"""

import torch

Numbers = dict[str, float | bool]


def run(safe_input: bool) -> Numbers:
    x = torch.tensor([0.0, 1.0, 4.0], requires_grad=True)
    inner = torch.where(x > 0, x, torch.ones_like(x)) if safe_input else x
    y = torch.where(x > 0, inner.sqrt(), torch.zeros_like(x))
    y.sum().backward()
    assert x.grad is not None
    return {
        "loss": y.sum().item(),
        "nan_gradients": int(x.grad.isnan().sum()),
        "gradient_at_4": x.grad[2].item(),
        "failed": bool(x.grad.isnan().any()),
    }


def broken() -> Numbers:
    return run(safe_input=False)


def fixed() -> Numbers:
    return run(safe_input=True)
