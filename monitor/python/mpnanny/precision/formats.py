"""What each format does to the values of a tensor: rounding to nearest, ties to even."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from ..programs.eight_bit import rounded as scaled_and_rounded


@dataclass(frozen=True, slots=True)
class Format:
    """`largest`, `smallest`: finite and positive magnitudes; `unit`: the largest relative error of
    one rounding; `bits` of storage. `rounded` takes and gives FP32. Formats of 8 bits are scaled:
    by the tensor's largest value, or by that of each block of 128.
    """

    name: str
    largest: float
    smallest: float
    unit: float
    bits: int
    rounded: Callable[[torch.Tensor], torch.Tensor]


def _tf32(values: torch.Tensor) -> torch.Tensor:
    """10 bits of mantissa, the exponent of FP32. What is not finite stays."""
    bits = values.float().contiguous().view(torch.int32)
    kept = bits + 0x0FFF + ((bits >> 13) & 1)
    made = (kept & ~0x1FFF).view(torch.float32)
    return torch.where(values.isfinite(), made, values)


def _through(dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda values: values.to(dtype).float()


def _scaled(dtype: torch.dtype, granularity: str) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda values: scaled_and_rounded(values, dtype, granularity)


FORMATS = {
    each.name: each
    for each in (
        Format("fp16", 65504.0, 2.0**-24, 2.0**-11, 16, _through(torch.float16)),
        Format("bf16", 3.3895313892515355e38, 2.0**-133, 2.0**-8, 16, _through(torch.bfloat16)),
        Format("tf32", 3.4028234663852886e38, 2.0**-149, 2.0**-11, 32, _tf32),
        Format("e4m3", 448.0, 2.0**-9, 2.0**-4, 8, _scaled(torch.float8_e4m3fn, "tensor")),
        Format("e4m3-block", 448.0, 2.0**-9, 2.0**-4, 8, _scaled(torch.float8_e4m3fn, "block")),
        Format("e5m2", 57344.0, 2.0**-16, 2.0**-3, 8, _scaled(torch.float8_e5m2, "tensor")),
    )
}
