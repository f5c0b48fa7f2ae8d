"""Activation checkpointing by hand: the forward pass runs under BF16 autocast, the recomputation in
backward does not, so that gradients belong to another function than the loss.
"""

import torch
from torch.utils.checkpoint import checkpoint

Numbers = dict[str, float | bool]

seen: list[torch.dtype] = []


def block(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    y = x @ weight.T
    seen.append(y.dtype)
    return torch.sign(torch.relu(y - 1.0039)) * y  # passes what is above a threshold


class Recompute(torch.autograd.Function):
    """A checkpoint that forgets under which autocast it ran."""

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx, x: torch.Tensor, weight: torch.Tensor
    ) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        with torch.no_grad():
            return block(x, weight)

    @staticmethod
    def backward(
        ctx: torch.autograd.function.FunctionCtx, grad: torch.Tensor
    ) -> tuple[torch.Tensor | None, ...]:
        x, weight = (t.detach().requires_grad_(True) for t in ctx.saved_tensors)
        with torch.enable_grad():
            y = block(x, weight)
        return torch.autograd.grad(y, (x, weight), grad.to(y.dtype))


def run(by_hand: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(64, 32, generator=generator) / 6)
    x = torch.randn(256, 32, generator=generator)
    seen.clear()
    with torch.autocast("cpu", torch.bfloat16):
        plain = block(x, weight)
    exact = torch.autograd.grad(plain.float().sum(), weight)[0]
    seen.clear()
    with torch.autocast("cpu", torch.bfloat16):
        if by_hand:
            y = Recompute.apply(x, weight)
        else:
            y = checkpoint(block, x, weight, use_reentrant=False)
    y.float().sum().backward()
    assert weight.grad is not None
    error = ((weight.grad - exact).norm() / exact.norm()).item()
    return {
        "bits_in_forward": torch.finfo(seen[0]).bits,
        "bits_in_recomputation": torch.finfo(seen[1]).bits,
        "gradient_error_percent": 100 * error,
        "failed": seen[0] != seen[1],
    }


def broken() -> Numbers:
    return run(by_hand=True)


def fixed() -> Numbers:
    return run(by_hand=False)
