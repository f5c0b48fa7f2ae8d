"""LayerNorm gains of one MX block lie close together: in MXFP8 with the scale of the standard most
become 0.875, and the gradient through the layer is 6 % too small. In BF16 it is right.
"""

import torch

Numbers = dict[str, float | bool]


def to_mxfp8(x: torch.Tensor) -> torch.Tensor:
    blocks = x.reshape(-1, 32)
    largest = blocks.abs().amax(-1, keepdim=True)
    scale = torch.exp2(torch.floor(torch.log2(largest)) - 8)
    stored = (blocks / scale).clamp(-448, 448).to(torch.float8_e4m3fn).float() * scale
    return stored.reshape(x.shape)


def input_gradient(x: torch.Tensor, gain: torch.Tensor, upstream: torch.Tensor) -> torch.Tensor:
    x = x.clone().requires_grad_()
    y = torch.nn.functional.layer_norm(x, x.shape[-1:], weight=gain)
    (gradient,) = torch.autograd.grad(y, x, upstream)
    return gradient


def run(quantised: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    gain = 0.93 + 0.02 * torch.randn(1024, generator=generator)
    x = torch.randn(64, 1024, generator=generator)
    upstream = torch.randn(64, 1024, generator=generator)
    used = to_mxfp8(gain) if quantised else gain.bfloat16().float()
    ratio = input_gradient(x, used, upstream).norm() / input_gradient(x, gain, upstream).norm()
    distinct = used.unique().numel()
    return {
        "distinct_gains": distinct,
        "at_0.875_percent": 100 * (used == 0.875).float().mean().item(),
        "gradient_ratio": ratio.item(),
        "gradient_ratio_over_24_layers": ratio.item() ** 24,
        "failed": abs(ratio.item() - 1) > 0.01,
    }


def broken() -> Numbers:
    return run(quantised=True)


def fixed() -> Numbers:
    return run(quantised=False)
