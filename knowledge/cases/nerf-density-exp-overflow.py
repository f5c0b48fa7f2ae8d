"""The density of a radiance field is exp of an FP16 output: finite up to 11.09, infinite at 12,
and its gradient is infinite or NaN. In FP32 with the gradient cut at 15 both are finite.
"""

import torch

Numbers = dict[str, float | bool]


class TruncatedExp(torch.autograd.Function):
    """exp in FP32, whose gradient is that of the argument cut at 15."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: torch.Tensor) -> torch.Tensor:
        x = x.float()
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, grad: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return grad * x.clamp(max=15).exp()


def render(density: torch.Tensor, spacing: float = 0.01) -> torch.Tensor:
    """Weights of the samples along each ray, as volume rendering has them."""
    optical = density * spacing
    passed = torch.exp(-torch.cumsum(optical, -1) + optical)
    return passed * (1 - torch.exp(-optical))


def run(truncated: bool) -> Numbers:
    # Outputs of the density network along one ray; late in training a few are large.
    raw = torch.tensor([[-2.0, 0.5, 4.0, 9.0, 11.0, 12.0, 13.0]], dtype=torch.float16)
    raw.requires_grad_(True)
    density = TruncatedExp.apply(raw) if truncated else raw.exp()
    weights = render(density)
    weights.float().square().sum().backward()
    assert raw.grad is not None
    return {
        "exp_of_11": torch.tensor(11.0).exp().half().item(),
        "infinite_densities": int(torch.isinf(density).sum()),
        "nan_weights": int(torch.isnan(weights).sum()),
        "nonfinite_gradients": int((~torch.isfinite(raw.grad)).sum()),
        "failed": not bool(torch.isfinite(raw.grad).all()),
    }


def broken() -> Numbers:
    return run(truncated=False)


def fixed() -> Numbers:
    return run(truncated=True)
