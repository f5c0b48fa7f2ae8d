"""A custom linear saves a BF16 input and an FP32 weight: without the FP8 cast that would unify
them, the product of the backward pass gets two dtypes and raises.
"""

from typing import Any

import torch

Numbers = dict[str, float | bool]


class Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, cast: bool) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        ctx.cast = cast
        return x @ weight.to(x.dtype).T

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        (upstream,) = gradients
        x, weight = ctx.saved_tensors
        if ctx.cast:
            weight = weight.to(upstream.dtype)
        return torch.mm(upstream, weight), torch.mm(upstream.T, x).to(torch.float32), None


def run(cast: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(8, 16, generator=generator).bfloat16().requires_grad_()
    weight = torch.randn(4, 16, generator=generator).requires_grad_()
    loss = Linear.apply(x, weight, cast).float().square().mean()
    raised = False
    try:
        loss.backward()
    except RuntimeError as error:
        raised = "same dtype" in str(error)
    return {
        "loss": loss.item(),
        "gradients": sum(p.grad is not None for p in (x, weight)),
        "failed": raised,
    }


def broken() -> Numbers:
    return run(cast=False)


def fixed() -> Numbers:
    return run(cast=True)
