"""Whether two runs part further than their roundings do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

# An element has parted where it is further away than so many times what noise has moved it, and of
# what noise has moved the tensor's elements in the mean.
_TIMES_OWN = 4.0
_TIMES_MEAN = 4.0
_TIMES_COUNT = 3.0  # more such elements than in any run with noise
_LEAST_UNITS = {torch.float16: 2.0, torch.bfloat16: 2.0}  # of the last place, of the size of ...
_OTHER_LEAST = 64.0
# Relative error from which on a difference counts although roundings explain it, where one of both
# is that far from FP64 and the other is nearer by so many times.
_LARGE, _TIMES_NEARER = 0.1, 4.0
BROKEN = 0.2  # error from which on a result is broken and not degraded


@dataclass(slots=True)
class Parted:
    """A value of the eager run that the other has not. `error`: ‖other − eager‖ / ‖eager‖."""

    name: str
    phase: str
    kind: str  # range, rounding
    what: str  # nonfinite, values, whole_numbers, dtype, shape, missing
    dtype: str
    shape: tuple[int, ...]
    share: float = 0.0
    error: float = math.inf
    eager_error: float | None = None  # against FP64
    error_compiled: float | None = None
    by_rounding: bool = False  # noise moves it as much: one of both has lost it to roundings

    @property
    def is_broken(self) -> bool:
        return self.what != "values" or not self.error <= BROKEN

    def nearer(self) -> str:
        """Which of both is nearer to FP64."""
        return nearer(self.eager_error, self.error_compiled)


def nearer(eager: float | None, compiled: float | None) -> str:
    """By errors against FP64: one that is less than half of the other, else neither."""
    if eager is None or compiled is None or eager == compiled:
        return "neither"
    if compiled > 2 * eager:
        return "eager"
    return "compiled" if eager > 2 * compiled else "neither"


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """On the CPU, in FP64."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.detach().to("cpu", torch.float64)


def error_of(tensor: torch.Tensor, reference: torch.Tensor) -> float:
    """Relative, L2. Infinite where one is finite and the other is not."""
    a, b = wide(tensor), wide(reference)
    if a.shape != b.shape:
        return math.inf
    if bool((a.isfinite() != b.isfinite()).any()):
        return math.inf
    finite = a.isfinite()
    size = float(b[finite].norm())
    apart = float((a[finite] - b[finite]).norm())
    return apart / size if size else (math.inf if apart else 0.0)


def part(
    name: str,
    phase: str,
    eager: torch.Tensor | None,
    other: torch.Tensor | None,
    noisy: Sequence[torch.Tensor | None],
    exact: torch.Tensor | None = None,
) -> Parted | None:
    """None where `other` is as near to `eager` as the runs with noise are, or as those are to each
    other.
    """
    if eager is None or other is None:
        if eager is other:
            return None
        known = eager if eager is not None else other
        assert known is not None
        return Parted(name, phase, "rounding", "missing", _dtype(known), tuple(known.shape), 1.0)
    made = Parted(name, phase, "rounding", "values", _dtype(eager), tuple(eager.shape))
    if eager.shape != other.shape or eager.dtype != other.dtype:
        made.what = "shape" if eager.shape != other.shape else "dtype"
        made.dtype = f"{_dtype(eager)}, {_dtype(other)}"
        made.share = 1.0
        return made
    if not eager.numel():
        return None
    runs = [wide(each) for each in noisy if each is not None and each.shape == eager.shape]
    is_float = eager.is_floating_point() or eager.is_complex()
    count = _count_whole if not is_float else _count_apart
    a, b = wide(eager), wide(other)
    found, what = count(a, b, runs, eager.dtype)
    if not found:
        return None
    usual = 0
    for at, each in enumerate(runs):
        rest = [*runs[:at], *runs[at + 1 :]]
        usual = max(usual, count(a, each, rest, eager.dtype)[0])
    if found <= _TIMES_COUNT * usual:
        return None
    made.what = what
    made.kind = "range" if what == "nonfinite" else "rounding"
    made.share = found / a.numel()
    made.error = error_of(other, eager)
    if exact is not None and is_float:
        made.eager_error = error_of(eager, exact)
        made.error_compiled = error_of(other, exact)
    return made


def is_large(eager: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    """Whether two results that roundings may explain are far apart all the same."""
    if eager is None or other is None or eager.shape != other.shape:
        return False
    if not (eager.is_floating_point() or eager.is_complex()) or eager.dtype != other.dtype:
        return False
    error = error_of(other, eager)
    return math.isfinite(error) and error >= _LARGE


def lost(
    name: str, phase: str, eager: torch.Tensor, other: torch.Tensor, exact: torch.Tensor
) -> Parted | None:
    """Of two results that are far apart, and as far apart as roundings move them: what is left of
    it if one is right and the other is not. A value that is all rounding in both is none.
    """
    made = Parted(name, phase, "rounding", "values", _dtype(eager), tuple(eager.shape))
    made.eager_error, made.error_compiled = error_of(eager, exact), error_of(other, exact)
    errors = sorted((made.eager_error, made.error_compiled))
    if not math.isfinite(errors[1]) or errors[1] < max(_LARGE, _TIMES_NEARER * errors[0]):
        return None
    a, b = wide(eager), wide(other)
    made.error = error_of(other, eager)
    made.share = float(((a - b).abs() > _LARGE * a.abs()).double().mean())
    made.by_rounding = True
    return made


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _count_whole(
    a: torch.Tensor, b: torch.Tensor, runs: list[torch.Tensor], dtype: torch.dtype
) -> tuple[int, str]:
    differ = a != b
    for each in runs:  # a choice that noise changes as well
        differ &= each == a
    return int(differ.sum()), "whole_numbers"


def _count_apart(
    a: torch.Tensor, b: torch.Tensor, runs: list[torch.Tensor], dtype: torch.dtype
) -> tuple[int, str]:
    """Elements of `b` that are further from `a` than `runs` are, and what that is."""
    same = (a.isfinite() & b.isfinite()) | (a.isnan() & b.isnan()) | (a == b)
    for each in runs:
        same |= ~(each.isfinite() == a.isfinite())  # at the edge of the range
    nonfinite = int((~same).sum())
    if nonfinite:
        return nonfinite, "nonfinite"
    finite = a.isfinite() & b.isfinite()
    apart = torch.where(finite, (b - a).abs(), 0.0)
    moved = torch.zeros_like(a)
    for each in runs:
        moved = torch.maximum(moved, torch.where(finite & each.isfinite(), (each - a).abs(), 0.0))
    mean = moved.square().mean().sqrt()
    size = torch.where(finite, a.abs(), 0.0)
    mean_size = size.square().mean().sqrt()
    bits = torch.finfo(dtype).eps
    units = _LEAST_UNITS.get(dtype, _OTHER_LEAST)
    least = units * bits * (size + (0.0 if units < 8 else 0.1) * mean_size)
    allowed = _TIMES_OWN * moved + _TIMES_MEAN * mean + least
    return int((apart > allowed).sum()), "values"
