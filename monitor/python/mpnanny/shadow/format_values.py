"""The values by which it is measured what other formats would make of a layer's output
(numerics/format_error.h).
"""

from __future__ import annotations

import torch

from ..fp64.operators import COMPLEX

MOST_FROM_DEVICE = 16384  # elements of a tensor that come to the host for it


def format_values(reference: torch.Tensor) -> torch.Tensor:
    """Real numbers on the host: all of them, of a tensor on a device some."""
    reference = reference.detach()
    if reference.dtype in COMPLEX:
        reference = torch.view_as_real(reference.resolve_conj())
    reference = reference.resolve_neg()
    return reference if reference.device.type == "cpu" else _spread(reference).cpu()


def _spread(tensor: torch.Tensor) -> torch.Tensor:
    """MOST_FROM_DEVICE elements, one of each of as many equal stretches."""
    flat = tensor.reshape(-1)
    if flat.numel() <= MOST_FROM_DEVICE:
        return flat
    at = torch.arange(MOST_FROM_DEVICE, dtype=torch.float64, device=flat.device)
    at += (at * 0.6180339887498949).frac()  # where in its stretch
    return flat[(at * (flat.numel() / MOST_FROM_DEVICE)).long().clamp(max=flat.numel() - 1)]
