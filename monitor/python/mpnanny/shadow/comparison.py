"""What a comparison of held values with their reference means."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch

from .. import _core
from .operators import COMPLEX

# Half the distance to the next number at 1: the largest relative error of one rounding.
HALF_ULP = {
    torch.float16: 2.0**-11,
    torch.bfloat16: 2.0**-8,
    torch.float32: 2.0**-24,
    torch.float64: 2.0**-53,
    torch.float8_e4m3fn: 2.0**-4,
    torch.float8_e5m2: 2.0**-3,
    torch.complex32: 2.0**-11,
    torch.complex64: 2.0**-24,
    torch.complex128: 2.0**-53,
}


class Comparison(NamedTuple):
    """numerics/reference_error.h: ReferenceError."""

    numel: int
    range: int
    undefined: int
    infinite: int
    reference_only: int
    nonzero: int
    flushed: int
    wrong_integers: int
    clipped: int
    integers: bool
    squared_error: float
    squared_reference: float
    squared_flushed: float
    max_error: float
    max_reference: float
    max_held: float

    @property
    def error(self) -> float:
        """Relative error in the L2 norm over the elements that are finite in both; inf where the
        reference is 0 and the held value is not.
        """
        if self.squared_error <= 0:
            return 0.0
        if self.squared_reference <= 0:
            return math.inf
        return math.sqrt(self.squared_error / self.squared_reference)

    @property
    def bad(self) -> int:
        """Elements that are not finite here."""
        return self.range + self.undefined + self.infinite

    def is_noise(self, dtype: torch.dtype) -> bool:
        """Whether the reference is 0 but for the rounding of FP64 itself, as the gradient of a bias
        before a normalisation: a sum whose terms cancel exactly. The held error is about half an
        ulp of the terms, so the terms follow from it, and with them what FP64 makes of an exact 0.
        """
        terms = self.squared_error**0.5 / HALF_ULP.get(dtype, 2.0**-24)
        return bool(self.squared_reference**0.5 <= 256 * 2.0**-53 * terms)


class Change(NamedTuple):
    """numerics/reference_error.h: ChangeError."""

    numel: int
    moved: int
    lost: int
    change: float
    lost_change: float
    kept_change: float
    squared_change: float
    squared_error: float


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    if tensor.dtype in COMPLEX:
        return torch.view_as_real(tensor.resolve_conj())
    return tensor.resolve_neg() if tensor.is_neg() else tensor


def compare(held: torch.Tensor, reference: torch.Tensor, floor: float = 0.0) -> Comparison | None:
    """None where one of the two cannot be read. `floor`: smaller magnitudes of the reference do not
    count as flushed.
    """
    figures: Any = _core.compare(_plain(held), _plain(reference), floor)
    return None if figures is None else Comparison(*figures)


def compare_change(
    before: torch.Tensor, after: torch.Tensor, was: torch.Tensor, now: torch.Tensor
) -> Change | None:
    """Held before and after, reference before and after."""
    figures: Any = _core.compare_change(_plain(before), _plain(after), _plain(was), _plain(now))
    return None if figures is None else Change(*figures)


# A loss below this part of the first ones is of a model that has converged: its gradients are what
# rounding leaves.
MATTERS_LOSS = 1e-3
