"""The backward of a custom Function as PyTorch up to 1.13 decorated it (autocast on, dtype not
handed over) and as it does since: forward and backward in two dtypes, or in one.
"""

import torch

Numbers = dict[str, float | bool]


def run(stores_dtype: bool) -> Numbers:
    seen: dict[str, torch.dtype] = {}

    class Gram(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu")
        def forward(ctx, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            y = x.T @ x
            seen["forward"] = y.dtype
            return y

        @staticmethod
        def backward(ctx, gradient: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            dtype = ctx._dtype if stores_dtype else torch.get_autocast_dtype("cpu")
            with torch.autocast("cpu", enabled=ctx._fwd_used_autocast, dtype=dtype):
                result = x @ (gradient + gradient.T)
            seen["backward"] = result.dtype
            return result.to(x.dtype)

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(64, 64, generator=generator, requires_grad=True)
    # The roles are those of BF16 and FP16 on a GPU, exchanged: the CPU's default is BF16.
    with torch.autocast("cpu", dtype=torch.float16):
        y = Gram.apply(x)
    y.float().square().mean().backward()
    exact = x.detach().clone().requires_grad_()
    (exact.T @ exact).square().mean().backward()
    assert x.grad is not None and exact.grad is not None
    error = ((x.grad - exact.grad).norm() / exact.grad.norm()).item()
    return {
        "same_dtype": int(seen["forward"] == seen["backward"]),
        "gradient_error_percent": 100 * error,
        "failed": seen["forward"] != seen["backward"],
    }


def broken() -> Numbers:
    return run(stores_dtype=False)


def fixed() -> Numbers:
    return run(stores_dtype=True)
