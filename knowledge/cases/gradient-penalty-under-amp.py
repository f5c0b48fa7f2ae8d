"""A gradient penalty under FP16: the input gradients it is made of are 1e-8 and round to zero, so
that the penalty is the constant 1 and teaches nothing. With the loss scale on the way it does.
"""

import torch

Numbers = dict[str, float | bool]

PLACES = 256 * 256


def run(scale: float) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, PLACES, generator=generator, requires_grad=True)
    weight = torch.nn.Parameter(1e-4 * torch.randn(PLACES, 1, generator=generator))
    # A critic whose product is FP16, as autocast makes it, and which averages over the places.
    score = (x.half() @ weight.half()).float().sum() / PLACES
    (gradient,) = torch.autograd.grad(score * scale, x, create_graph=True)
    zeros = (gradient == 0).float().mean().item()
    norm = (gradient / scale).norm(dim=1)
    penalty = (norm - 1).square().mean()
    penalty.backward()
    assert weight.grad is not None
    taught = weight.grad.norm().item()
    return {
        "zeros_percent": 100 * zeros,
        "norm": norm.mean().item(),
        "penalty": penalty.item(),
        "gradient_of_penalty": taught,
        "failed": taught == 0,
    }


def broken() -> Numbers:
    return run(1.0)


def fixed() -> Numbers:
    return run(65536.0)
