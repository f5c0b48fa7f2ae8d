"""FP8 with one scale a row: a row of padding is all zeros, its scale is 0, and 0/0 is NaN. A lower
bound on the largest magnitude keeps it 0.
"""

import torch

Numbers = dict[str, float | bool]


def run(bound: float) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(8, 64, generator=generator)
    x[6:] = 0.0  # two tokens of padding
    weight = torch.randn(64, 16, generator=generator, requires_grad=True)
    largest = x.abs().amax(-1, keepdim=True)
    if bound:
        largest = largest.clamp(min=bound)
    scale = largest / 448
    codes = (x / scale).to(torch.float8_e4m3fn)
    out = (codes.float() * scale) @ weight
    loss = out[:6].square().mean()  # the padding is not part of the loss
    loss.backward()
    assert weight.grad is not None
    return {
        "rows_with_scale_zero": int((scale == 0).sum()),
        "nan_codes": int(codes.float().isnan().sum()),
        "loss": loss.item(),
        "nan_gradients": int(weight.grad.isnan().sum()),
        "failed": bool(weight.grad.isnan().any()),
    }


def broken() -> Numbers:
    return run(bound=0.0)


def fixed() -> Numbers:
    return run(bound=1e-12)
