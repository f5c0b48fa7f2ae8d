"""Figures of a tensor by which ranks are compared: numerics/rank_figures.h on the CPU, torch's
operators on a device, with the same hash and, but for the order of sums, the same numbers.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from .._core import rank_figures
from ..base.later import HOST, Parcel

# (hash, numel, nonfinite, squares, a, b); the hash with a sign, as SQLite keeps it.
Figures = tuple[int, int, int, float, float, float]

_GOLDEN = 0x9E3779B97F4A7C15 - 2**64
_FIRST = 0xFF51AFD7ED558CCD - 2**64
_SECOND = 0xC4CEB9FE1A85EC53 - 2**64
_PART = 1 << 22  # elements that are mixed at once
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_FLOATS = {1: torch.float8_e4m3fn, 2: torch.float16, 4: torch.float32, 8: torch.float64}


class Pending:
    """Figures that are there at once, or on their way from a device."""

    __slots__ = ("_parcel", "_value")

    def __init__(self, value: Figures | None, parcel: Parcel | None = None) -> None:
        self._value = value
        self._parcel = parcel

    def arrived(self) -> bool:
        return self._parcel is None or self._parcel.arrived()

    def value(self) -> Figures | None:
        """Waits where it has not arrived."""
        if self._parcel is not None:
            self._parcel.wait()
            numbers = self._parcel.value
            whole = numbers[:3].tolist()
            squares, a, b = numbers[3:].view(torch.float64).tolist()
            self._value, self._parcel = (whole[0], whole[1], whole[2], squares, a, b), None
        return self._value


def figures_of(tensor: Any, first: int = 0) -> Pending:
    """Of a plain tensor or this rank's part of a DTensor. `first`: its first element's place in
    the whole. No figures of what cannot be read.
    """
    held = getattr(tensor, "_local_tensor", tensor)
    if not isinstance(held, torch.Tensor) or held.layout is not torch.strided or held.is_meta:
        return Pending(None)
    with torch.no_grad():
        plain = held.detach()
        if plain.is_complex():
            plain = torch.view_as_real(plain)
        if plain.device.type not in HOST:
            return Pending(None, Parcel(on_device(plain, first)))
        if plain.is_floating_point():
            return Pending(rank_figures(plain, first))
        return Pending(_of_integers(plain, first))


def _of_integers(tensor: torch.Tensor, first: int) -> Figures | None:
    """Hashed by their bits; the numbers are those of their values."""
    if tensor.dtype is torch.bool:
        tensor = tensor.to(torch.uint8)
    bits = rank_figures(tensor.contiguous().view(_FLOATS[tensor.element_size()]), first)
    values = rank_figures(tensor.double(), first)
    if bits is None or values is None:
        return None
    return (bits[0], *values[1:])


def _shifted(x: torch.Tensor, by: int) -> torch.Tensor:
    """Shifted right as an unsigned number."""
    return (x >> by) & ((1 << (64 - by)) - 1)


def _mixed(x: torch.Tensor) -> torch.Tensor:
    x = x ^ _shifted(x, 33)
    x = x * _FIRST
    x = x ^ _shifted(x, 33)
    x = x * _SECOND
    return x ^ _shifted(x, 33)


def on_device(tensor: torch.Tensor, first: int) -> torch.Tensor:
    """Six integers, the last three of which are the bits of FP64 numbers; only queues work."""
    flat = tensor.contiguous().reshape(-1)
    if flat.dtype is torch.bool:
        flat = flat.to(torch.uint8)
    size = flat.element_size()
    whole = torch.zeros(3, dtype=torch.int64, device=flat.device)
    sums = torch.zeros(3, dtype=torch.float64, device=flat.device)
    for start in range(0, flat.numel(), _PART):
        part = flat[start : start + _PART]
        places = torch.arange(start + first, start + first + part.numel(), device=flat.device)
        keys = (places + 1) * _GOLDEN
        bits = part.view(_BITS[size]).to(torch.int64)
        if size < 8:
            bits = bits & ((1 << 8 * size) - 1)
        values = part.to(torch.float64)
        finite = values.isfinite()
        values = torch.where(finite, values, 0.0)
        signs = _mixed(keys)
        whole[0] += _mixed(bits ^ keys).sum()
        whole[2] += (~finite).sum()
        sums[0] += values.square().sum()
        for row in range(2):
            sums[row + 1] += torch.where((signs >> row & 1) == 1, values, -values).sum()
    whole[1] += flat.numel()
    return torch.cat((whole, sums.view(torch.int64)))


def summed(a: Figures | None, b: Figures | None) -> Figures | None:
    """Of the sum of two tensors, as far as it follows from theirs: no norm, no hash."""
    if a is None or b is None:
        return a or b
    return (0, a[1], a[2] + b[2], math.nan, a[4] + b[4], a[5] + b[5])


def copy_of(tensor: torch.Tensor) -> torch.Tensor:
    """In FP64."""
    with torch.no_grad():
        return tensor.detach().to(torch.float64, copy=True)


def share_of(earlier: torch.Tensor, tensor: torch.Tensor) -> float | None:
    """How much of `earlier`, an FP64 copy, `tensor` holds, by least squares; None of zeros."""
    with torch.no_grad():
        size = float(earlier.square().sum())
        return float((earlier * tensor.detach().double()).sum()) / size if size else None
