"""Statistics by torch's own operators, for tensors that only a device can read.

Every function only queues work; none asks for a value. Figures mean what they mean in the core
(numerics/tensor_stats.h), whose kernels they are tested against.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

# Larger tensors are taken in parts, so that what is computed in between stays small.
MOST = 1 << 22

_PLAIN = (torch.Tensor, nn.Parameter)
_INFINITY = math.inf
_FLUSHED = 2.0**-25  # the largest magnitude that FP16 rounds to 0
_NORMAL = 2047 * 2.0**-25  # the smallest that it rounds to a normal number
_OVERFLOW = 65520.0  # the smallest that it does not hold
_NEAR = 58953.59765625  # 0.9 x 65504 in FP32


def readable(value: Any) -> torch.Tensor | None:
    """The plain floating-point tensor behind `value`, or this rank's part of it; None if there is
    none. To be used without gradients being recorded.
    """
    if type(value) not in _PLAIN:
        value = getattr(value, "_local_tensor", None)  # of a DTensor
        if type(value) not in _PLAIN:
            return None
    tensor: torch.Tensor = value
    if not tensor.is_floating_point() or tensor.layout is not torch.strided:
        return None
    if tensor.is_meta or not tensor.numel():
        return None
    return tensor


def _widened(x: torch.Tensor) -> torch.Tensor:
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def extremes(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(min, max); both NaN if an element is."""
    low, high = torch.aminmax(x.float() if x.element_size() == 1 else x)
    return low, high


def parts(x: torch.Tensor, most: int = MOST) -> Iterator[torch.Tensor]:
    """Views of at most `most` elements that make up `x`; no copies."""
    strides = x.stride()
    order = sorted(range(x.dim()), key=lambda dim: -strides[dim])
    ordered = x.permute(order)
    if ordered.is_contiguous():
        yield from ordered.reshape(-1).split(most)
    elif x.numel() <= most:
        yield x
    else:
        sizes = list(x.shape)
        longest = sizes.index(max(sizes))
        length = max(1, most * sizes[longest] // x.numel())
        if length == sizes[longest]:
            length = max(1, length // 2)
        for part in x.split(length, longest):
            yield from parts(part, most)


def whole(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Counts (nan, posinf, neginf, zeros, finite, below, subnormal, above, near), extremes (min,
    max, smallest magnitude that is not 0) and moments (mean, squared deviations, squares) of a
    part. The last two are of finite elements, and of no meaning if there is none.
    """
    wide = _widened(x)
    finite = wide.isfinite()
    clean = torch.where(finite, wide, 0.0)
    size = clean.abs()
    nonzero = size > 0
    count = finite.sum()
    counts = torch.stack(
        (
            wide.isnan().sum(),
            (wide == _INFINITY).sum(),
            (wide == -_INFINITY).sum(),
            (wide == 0).sum(),
            count,
            (nonzero & (size <= _FLUSHED)).sum(),
            ((size > _FLUSHED) & (size < _NORMAL)).sum(),
            (size >= _OVERFLOW).sum(),
            (size > _NEAR).sum(),
        )
    )
    ends = torch.stack(
        (
            torch.where(finite, wide, _INFINITY).amin(),
            torch.where(finite, wide, -_INFINITY).amax(),
            torch.where(nonzero, size, _INFINITY).amin(),
        )
    )
    # About the mean as the element's type holds it, so that small spreads keep their digits; what
    # that mean is off by is put right in double.
    mean = clean.sum(dtype=torch.float64) / count
    shift = mean.to(wide.dtype)
    deviation = torch.where(finite, clean - shift, 0.0)
    off = deviation.sum(dtype=torch.float64)
    squared = torch.linalg.vector_norm(deviation, dtype=torch.float64).square()
    moments = torch.stack(
        (
            shift.to(torch.float64) + off / count,
            (squared - off * off / count).clamp_min(0),
            torch.linalg.vector_norm(clean, dtype=torch.float64).square(),
        )
    )
    return counts, ends, moments


def norms(tensors: list[torch.Tensor], order: float) -> list[torch.Tensor]:
    """The norm of each; few launches for many tensors of one type and device. Squares are summed in
    FP64: those of FP16 and FP32 would overflow where the elements do not.
    """
    found: dict[int, torch.Tensor] = {}
    alike: dict[tuple[torch.device, torch.dtype], list[int]] = {}
    for at, tensor in enumerate(tensors):
        alike.setdefault((tensor.device, tensor.dtype), []).append(at)
    for (_, dtype), places in alike.items():
        group = [tensors[at] for at in places]
        if dtype.itemsize == 1:
            group = [each.float() for each in group]
        wanted = {} if order == _INFINITY else {"dtype": torch.float64}
        try:
            values: Any = torch._foreach_norm(group, order, **wanted)
        except (TypeError, RuntimeError):  # another torch version
            values = [torch.linalg.vector_norm(each, order, **wanted) for each in group]
        found.update(zip(places, values, strict=True))
    return [found[at] for at in range(len(tensors))]
