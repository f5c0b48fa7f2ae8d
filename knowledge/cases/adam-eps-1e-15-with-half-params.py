"""Adam with eps 1e-15 on gradients that come out of an FP16 backward: a rarely used entry whose
whole gradient is one FP16 subnormal is moved by many times the learning rate.
"""

import torch

Numbers = dict[str, float | bool]


def run(eps: float) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    table = torch.nn.Parameter(torch.zeros(256))  # entries of a hash grid, FP32
    optimizer = torch.optim.Adam([table], lr=1e-2, eps=eps)
    true = 3.2e-8 * torch.randn(256, generator=generator).sign()
    arrived = true.half().float()  # the gradient as the FP16 backward hands it over
    for step in range(400):
        hit = step == 200
        table.grad = arrived if hit else torch.zeros(256)
        optimizer.step()
    moved = table.detach().abs().max().item()
    return {
        "true_gradient": true.abs().max().item(),
        "arrived_gradient": arrived.abs().max().item(),
        "moved": moved,
        "moved_over_lr": moved / 1e-2,
        "failed": moved > 1e-2,
    }


def broken() -> Numbers:
    return run(1e-15)


def fixed() -> Numbers:
    return run(1e-6)
