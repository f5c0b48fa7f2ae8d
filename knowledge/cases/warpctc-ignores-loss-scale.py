"""A loss whose backward returns stored gradients and ignores grad_output: the loss scale does not
reach them, unscaling divides them by 65536, and the weights stand still.
"""

from typing import Any

import torch

Numbers = dict[str, float | bool]


class StoredGradients(torch.autograd.Function):
    """Squared error with gradients made in forward, as external CTC kernels make them."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, target: torch.Tensor, follow: bool) -> torch.Tensor:
        ctx.save_for_backward(2 * (x - target) / x.numel())
        ctx.follow = follow
        return (x - target).square().mean()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: torch.Tensor) -> Any:
        (gradient,) = ctx.saved_tensors
        return (gradient * grad_outputs[0] if ctx.follow else gradient), None, None


def run(follow: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    scale = 65536.0
    x = torch.randn(64, 16, generator=generator)
    target = x @ torch.randn(16, 4, generator=generator)
    weight = torch.nn.Parameter(torch.zeros(16, 4))
    losses = []
    for _ in range(200):
        weight.grad = None
        loss = StoredGradients.apply(x @ weight, target, follow)
        (loss * scale).backward()
        assert weight.grad is not None
        with torch.no_grad():
            weight -= 0.5 * weight.grad / scale  # unscale, then step
        losses.append(loss.item())
    one, other = (torch.zeros(4, requires_grad=True) for _ in range(2))
    goal = torch.ones(4)
    StoredGradients.apply(one, goal, follow).backward()
    (scale * StoredGradients.apply(other, goal, follow)).backward()
    assert one.grad is not None and other.grad is not None
    return {
        "scaled_over_unscaled": (other.grad / one.grad).mean().item(),
        "first_loss": losses[0],
        "last_loss": losses[-1],
        "failed": losses[-1] > 0.9 * losses[0],
    }


def broken() -> Numbers:
    return run(follow=False)


def fixed() -> Numbers:
    return run(follow=True)
