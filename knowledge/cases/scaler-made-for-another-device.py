"""GradScaler without a device is CUDA's: where there is no CUDA it warns once and scales nothing,
and small FP16 gradients are 0. Made for the device of the model it scales.
"""

import warnings
from unittest import mock

import torch

Numbers = dict[str, float | bool]


def run(device: str | None) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(256, 1, generator=generator))
    x = torch.randn(8, 256, generator=generator)
    # As on a machine without CUDA, whatever this one has.
    no_cuda = mock.patch("torch.cuda.amp.common.amp_definitely_not_available", return_value=True)
    with warnings.catch_warnings(record=True) as caught, no_cuda:
        warnings.simplefilter("always")
        scaler = torch.amp.GradScaler() if device is None else torch.amp.GradScaler(device)
    loss = 1e-9 * (x.half() @ weight.half()).float().sum()
    scaler.scale(loss).backward()
    assert weight.grad is not None
    zeros = (weight.grad == 0).float().mean().item()
    return {
        "enabled": int(scaler.is_enabled()),
        "scale": scaler.get_scale(),
        "warnings": len(caught),
        "zero_gradients_percent": 100 * zeros,
        "failed": zeros > 0.5,
    }


def broken() -> Numbers:
    return run(None)


def fixed() -> Numbers:
    return run("cpu")
