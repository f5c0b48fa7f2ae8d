"""A backward that enters autocast without a dtype, run by another thread than the forward, as on a
GPU: it computes in the device's default dtype and not in the one of the forward pass.
"""

import threading

import torch

Numbers = dict[str, float | bool]


def run(remembered: bool) -> Numbers:
    seen: dict[str, torch.dtype] = {}

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x, weight)
            ctx.amp_dtype = torch.get_autocast_dtype("cpu")
            y = x @ weight
            seen["forward"] = y.dtype
            return y

        @staticmethod
        def backward(ctx, gradient: torch.Tensor) -> tuple:
            x, weight = ctx.saved_tensors
            dtype = ctx.amp_dtype if remembered else None
            with torch.autocast("cpu", dtype=dtype):
                of_x, of_weight = gradient @ weight.T, x.T @ gradient
            seen["backward"] = of_weight.dtype
            return of_x.to(x.dtype), of_weight.to(weight.dtype)

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(32, 32, generator=generator)
    weight = torch.randn(32, 32, generator=generator, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.float16):  # not the CPU's default
        loss = Product.apply(x, weight).float().square().mean()
    thread = threading.Thread(target=loss.backward)
    thread.start()
    thread.join()
    exact = weight.detach().clone().requires_grad_()
    (x @ exact).square().mean().backward()
    assert weight.grad is not None and exact.grad is not None
    error = ((weight.grad - exact.grad).norm() / exact.grad.norm()).item()
    return {
        "forward_is_fp16": int(seen["forward"] == torch.float16),
        "backward_is_fp16": int(seen["backward"] == torch.float16),
        "gradient_error_percent": 100 * error,
        "failed": seen["forward"] != seen["backward"],
    }


def broken() -> Numbers:
    return run(remembered=False)


def fixed() -> Numbers:
    return run(remembered=True)
