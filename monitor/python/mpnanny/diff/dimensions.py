"""How even the slices of a tensor are: what a sum over them would swallow."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from ..fp64.comparison import HALF_ULP

MOST_DIMENSIONS = 5
MOST_ELEMENTS = 1 << 24


@dataclass(frozen=True, slots=True)
class Dimension:
    """Of one dimension of a tensor. `imbalance`: the largest magnitude of its largest slice over
    that of its smallest one that is not 0. `absorbed`: the share of its slices that are wholly
    below half the spacing of the tensor's dtype at the largest magnitude, so that they vanish in a
    sum that has come as far.
    """

    dim: int
    size: int
    imbalance: float
    absorbed: float


def dimensions(tensor: torch.Tensor) -> list[Dimension]:
    """Of each dimension; of tensors with too many elements or dimensions nothing."""
    tensor = tensor.detach()
    if not tensor.is_floating_point() or not 0 < tensor.numel() <= MOST_ELEMENTS:
        return []
    if tensor.dim() > MOST_DIMENSIONS:
        return []
    sizes = torch.where(tensor.isfinite(), tensor, 0).to(torch.float64).abs()
    found = []
    for dim in range(tensor.dim()):
        others = [each for each in range(tensor.dim()) if each != dim]
        slices = sizes.amax(others) if others else sizes
        nonzero = slices[slices > 0]
        if not nonzero.numel():
            continue
        largest = nonzero.max().item()
        imbalance = largest / nonzero.min().item()
        floor = largest * HALF_ULP.get(tensor.dtype, 2.0**-24)
        absorbed = (slices < floor).sum().item() / slices.numel()
        found.append(Dimension(dim, slices.numel(), min(imbalance, math.inf), absorbed))
    return found
