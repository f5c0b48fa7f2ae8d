"""The values by which it is measured what other formats would make of a layer's output
(numerics/format_error.h).
"""

from __future__ import annotations

import torch

from ..fp64.comparison import on_host
from ..fp64.operators import COMPLEX

MOST_FROM_DEVICE = 16384  # elements of a tensor that come to the host for it


class FormatValues:
    """Of one step, in which the places that are taken from tensors of one size are the same."""

    def __init__(self) -> None:
        self._spread: dict[tuple[int, torch.device], torch.Tensor] = {}

    def of(self, reference: torch.Tensor) -> torch.Tensor:
        """Real numbers where the tensor lies: all of them, of one on a device some. They may share
        its memory.
        """
        reference = reference.detach()
        if reference.dtype in COMPLEX:
            reference = torch.view_as_real(reference.resolve_conj())
        reference = reference.resolve_neg()
        if on_host(reference):
            return reference
        flat = reference.reshape(-1)
        if flat.numel() <= MOST_FROM_DEVICE:
            return flat
        key = (flat.numel(), flat.device)
        if key not in self._spread:
            self._spread[key] = _spread(*key)
        return flat[self._spread[key]]


def _spread(numel: int, device: torch.device) -> torch.Tensor:
    """One place of each of MOST_FROM_DEVICE equal stretches."""
    at = torch.arange(MOST_FROM_DEVICE, dtype=torch.float64, device=device)
    at += (at * 0.6180339887498949).frac()  # where in its stretch
    return (at * (numel / MOST_FROM_DEVICE)).long().clamp(max=numel - 1)
