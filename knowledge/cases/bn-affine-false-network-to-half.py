"""A helper that converts a model to FP16 and takes back only BatchNorm layers with weights: those
with affine=False keep FP16 statistics, and a running variance above 65504 is infinite.
"""

import torch
from torch import nn

Numbers = dict[str, float | bool]


def network_to_half(model: nn.Module, all_norms: bool) -> nn.Module:
    model.half()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d) and (all_norms or module.affine):
            module.float()
    return model


def run(all_norms: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    first, second = nn.BatchNorm1d(8), nn.BatchNorm1d(8, affine=False)
    model = network_to_half(nn.ModuleList([first, second]), all_norms)
    x = (1000 * torch.randn(256, 8, generator=generator)).half()
    for _ in range(20):
        first(x)
        second(x)
    model.eval()
    out = second(x)
    assert second.running_var is not None and first.running_var is not None
    return {
        "bytes_with_affine": first.running_var.element_size(),
        "bytes_without": second.running_var.element_size(),
        "infinite_variances": int(torch.isinf(second.running_var).sum()),
        "largest_output": out.float().abs().max().item(),
        "failed": bool(torch.isinf(second.running_var).any()),
    }


def broken() -> Numbers:
    return run(all_norms=False)


def fixed() -> Numbers:
    return run(all_norms=True)
