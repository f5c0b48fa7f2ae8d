"""What a comparison of held values with their reference means."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch

from .. import _core
from .device_figures import change_of, figures_of
from .operators import COMPLEX
from .thresholds import OF_FP64

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


def least_of_noise(dtype: torch.dtype, rounding: float) -> float:
    """The part of its error below which a reference is its own rounding (LeastOfNoise in
    engines/judgement/comparison.h). `rounding`: of products in FP32.
    """
    return max(OF_FP64 / HALF_ULP.get(dtype, 2.0**-24), rounding)


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
    flushed_that_matter: int
    flushed_in_range: int
    flushed_that_matter_in_range: int

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

    def is_noise(self, dtype: torch.dtype, rounding: float) -> bool:
        """Whether the reference is 0 but for its own rounding, as the gradient of a bias before a
        normalisation: a sum whose terms cancel exactly. The held error is about half an ulp of the
        terms, so the terms follow from it, and with them what FP64 makes of an exact 0. `rounding`:
        of products in FP32 (Entry).
        """
        least = least_of_noise(dtype, rounding) * self.squared_error**0.5
        return bool(self.squared_reference**0.5 <= least)


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


def on_host(tensor: torch.Tensor) -> bool:
    """Whether the kernels reach its memory."""
    return tensor.device.type == "cpu"


def plain(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    if tensor.dtype in COMPLEX:
        return torch.view_as_real(tensor.resolve_conj())
    return tensor.resolve_neg() if tensor.is_neg() else tensor


def compare(held: torch.Tensor, reference: torch.Tensor) -> Comparison | None:
    """None where one of the two cannot be read."""
    held, reference = as_read(held, reference)
    figures: Any = (0,) * len(Comparison._fields)  # of an empty tensor
    if on_host(held):
        figures = _core.compare(held, reference)
    elif held.numel():
        figures = figures_of(held, reference)
    return None if figures is None else Comparison(*figures)


def as_read(held: torch.Tensor, reference: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The two as the kernels read them: real numbers, in the order of their memory."""
    held, reference = plain(held), plain(reference)
    if held.dim() > 2 and held.stride(1) == 1 and held.shape[1] > 1:  # channels_last
        held, reference = held.movedim(1, -1), reference.movedim(1, -1)
    return held, reference


def compare_change(
    before: torch.Tensor, after: torch.Tensor, was: torch.Tensor, now: torch.Tensor
) -> Change | None:
    """Held before and after, reference before and after."""
    values = [plain(each) for each in (before, after, was, now)]
    figures: Any = (0,) * len(Change._fields)
    if on_host(before):
        figures = _core.compare_change(*values)
    elif before.numel():
        figures = change_of(*values)
    return None if figures is None else Change(*figures)
