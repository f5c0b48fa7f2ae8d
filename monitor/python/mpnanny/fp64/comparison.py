"""What a comparison of held values with their reference means."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch

from .. import _core
from .operators import COMPLEX
from .thresholds import MANY_FLUSHED, MATTERS, MUCH_FLUSHED, OF_FP64

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


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    if tensor.dtype in COMPLEX:
        return torch.view_as_real(tensor.resolve_conj())
    return tensor.resolve_neg() if tensor.is_neg() else tensor


def compare(held: torch.Tensor, reference: torch.Tensor) -> Comparison | None:
    """None where one of the two cannot be read."""
    held, reference = as_read(held, reference)
    if held.device.type != "cpu":
        return on_device(held, reference)
    figures: Any = _core.compare(held, reference)
    return None if figures is None else Comparison(*figures)


def as_read(held: torch.Tensor, reference: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The two as the kernels read them: real numbers, in the order of their memory."""
    held, reference = _plain(held), _plain(reference)
    if held.dim() > 2 and held.stride(1) == 1 and held.shape[1] > 1:  # channels_last
        held, reference = held.movedim(1, -1), reference.movedim(1, -1)
    return held, reference


def compare_change(
    before: torch.Tensor, after: torch.Tensor, was: torch.Tensor, now: torch.Tensor
) -> Change | None:
    """Held before and after, reference before and after."""
    if before.device.type != "cpu":
        return change_on_device(before, after, was, now)
    figures: Any = _core.compare_change(_plain(before), _plain(after), _plain(was), _plain(now))
    return None if figures is None else Change(*figures)


def on_device(held: torch.Tensor, reference: torch.Tensor) -> Comparison:
    """The same by torch's operators, where the memory is out of the kernels' reach; waits for the
    device once, and once more where much was flushed.
    """
    h, r = held.to(torch.float64), reference.to(torch.float64)
    held_finite, finite = h.isfinite(), r.isfinite()
    both = held_finite & finite
    h, r0 = torch.where(both, h, 0.0), torch.where(both, r, 0.0)
    size = torch.where(finite, r, 0.0).abs()
    nonzero = finite & (r != 0)
    flushed = both & (r0 != 0) & (h == 0)
    whole = both & (r0 == r0.round())
    largest = torch.finfo(held.dtype).max
    zero = h.new_zeros(1)
    rows = [
        (finite & ~held_finite).sum(),
        (r.isnan() & ~held_finite).sum(),
        (r.isinf() & ~held_finite).sum(),
        (~finite & held_finite).sum(),
        nonzero.sum(),
        flushed.sum(),
        (whole & (h != r0)).sum(),
        (both & (h.abs() == largest) & (r0.abs() > largest)).sum(),
        (whole | ~both).all() & both.any(),
        (h - r0).square().sum(),
        r0.square().sum(),
        torch.where(flushed, r0, 0.0).square().sum(),
        torch.cat([(h - r0).abs().flatten(), zero]).max(),
        torch.cat([size.flatten(), zero]).max(),
        torch.cat([h.abs().flatten(), zero]).max(),
    ]
    figures = torch.stack([each.to(torch.float64) for each in rows]).tolist()
    if not all(map(math.isfinite, figures[9:12])):
        most = max(h.abs().max().item(), r0.abs().max().item())
        scale = 2.0 ** (481 - math.frexp(most)[1])
        h, r0 = h * scale, r0 * scale
        scaled = torch.stack([h - r0, r0, torch.where(flushed, r0, 0.0)])
        figures[9:12] = scaled.square().flatten(1).sum(1).tolist()
    counts = [int(each) for each in figures[:8]]
    rest: Any = (*counts, bool(figures[8]), *figures[9:], 0, 0, 0)
    found = Comparison(held.numel(), *rest)
    are_many = found.flushed > MANY_FLUSHED * found.nonzero
    much = found.squared_flushed > MUCH_FLUSHED * found.squared_error
    return _count_flushed(found, held.dtype, r0, flushed) if are_many or much else found


def _count_flushed(
    found: Comparison, dtype: torch.dtype, reference: torch.Tensor, flushed: torch.Tensor
) -> Comparison:
    """Which of the flushed elements count."""
    if not found.flushed:
        return found
    least = MATTERS * math.sqrt(found.squared_reference / found.numel)
    format_ = torch.finfo(dtype)
    smallest = format_.smallest_normal * format_.eps
    sizes = torch.where(flushed, reference.abs(), -1.0)
    floors = (least, smallest, max(least, smallest))
    counts = torch.stack([(sizes >= each).sum() for each in floors]).tolist()
    return found._replace(
        flushed_that_matter=counts[0],
        flushed_in_range=counts[1],
        flushed_that_matter_in_range=counts[2],
    )


def change_on_device(
    before: torch.Tensor, after: torch.Tensor, was: torch.Tensor, now: torch.Tensor
) -> Change:
    """As on_device()."""
    held = after.detach().to(torch.float64) - before.detach().to(torch.float64)
    wanted = now - was
    moved = held.isfinite() & wanted.isfinite() & (wanted != 0)
    held, wanted = torch.where(moved, held, 0.0), torch.where(moved, wanted, 0.0)
    lost = moved & (held == 0)
    rows = [
        moved.sum(),
        lost.sum(),
        wanted.abs().sum(),
        torch.where(lost, wanted, 0.0).abs().sum(),
        (held * wanted.sign()).sum(),
        wanted.square().sum(),
        (held - wanted).square().sum(),
    ]
    figures = torch.stack([each.to(torch.float64) for each in rows]).tolist()
    return Change(held.numel(), int(figures[0]), int(figures[1]), *figures[2:])
