"""Activations stay below 12 in forward, and the gradient that doubles from layer to layer towards
the input passes FP16's largest number on the way. The same backward in BF16 is finite.
"""

import torch

Numbers = dict[str, float | bool]


def run(dtype: torch.dtype) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    layers = 16
    weights = [
        (0.35 * torch.randn(64, 64, generator=generator)).to(dtype).requires_grad_()
        for _ in range(layers)
    ]
    x = torch.randn(32, 64, generator=generator).to(dtype)
    largest = 0.0
    for weight in weights:
        x = x @ weight
        largest = max(largest, x.detach().abs().max().item())
        x = x.sin()
    loss = 16 * x.float().square().sum()  # 16: a modest loss scale
    loss.backward()
    gradients = [w.grad for w in weights if w.grad is not None]
    bad = [int((~torch.isfinite(g)).any()) for g in gradients]
    return {
        "largest_activation": largest,
        "layers": layers,
        "layers_with_nonfinite_gradient": sum(bad),
        "last_layer_gradient": gradients[-1].float().abs().max().item(),
        "failed": sum(bad) > 0,
    }


def broken() -> Numbers:
    return run(torch.float16)


def fixed() -> Numbers:
    return run(torch.bfloat16)
