"""The loss scale that FP16 gradients need, from the magnitudes that were measured in FP32."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .formats import FORMATS
from .units import Unit

MOST = 2.0**24  # above it a GradScaler's scale is itself near the end of what products can hold
DEFAULT = 2.0**16  # torch.amp.GradScaler's
# Left between the largest gradient seen and FP16's end: one batch is not the largest there will be.
HEADROOM = 16.0
GROWTH_INTERVAL = 2000  # torch.amp.GradScaler's


@dataclass(frozen=True, slots=True)
class Scaling:
    """`flushed_unscaled`, `flushed`: the share of gradient values (results of the backward pass)
    that round to zero in FP16 at a scale of 1 and at `initial`.
    """

    initial: float
    growth_interval: int
    gradient_absmax: float
    flushed_unscaled: float
    flushed: float


def flushed_share(exponents: Counter[int], scale: float) -> float:
    """Of values counted by exponent, the share that becomes zero in FP16 once multiplied by `scale`
    (a power of two). Values of 2^(e-1) … 2^e with e-1 < -25 do; half of a subnormal rounds to even.
    """
    total = exponents.total()
    if not total:
        return 0.0
    border = math.log2(FORMATS["fp16"].smallest) - 1
    lost = sum(count for e, count in exponents.items() if e + math.log2(scale) <= border)
    return lost / total


def first_scale(units: Iterable[Unit]) -> float:
    """The largest power of two at which gradients of `units` stay below FP16's end, with room."""
    largest = max((each.gradient_absmax for each in units), default=0.0)
    if not 0 < largest < math.inf:
        return DEFAULT
    room = math.floor(math.log2(FORMATS["fp16"].largest / HEADROOM / largest))
    return math.ldexp(1.0, min(int(math.log2(MOST)), max(0, room)))


def scaling_for(units: Sequence[Unit], scale: float, steps: int | None = None) -> Scaling:
    """`units`: those in FP16. `scale`: which was tried. `steps` of the training, where they are
    known: a run that is shorter than a few growth intervals would keep its first scale.
    """
    interval = GROWTH_INTERVAL
    if steps is not None:
        interval = max(50, min(GROWTH_INTERVAL, steps // 10))
    exponents: Counter[int] = Counter()
    for each in units:
        exponents += each.exponents
    return Scaling(
        scale,
        interval,
        max((each.gradient_absmax for each in units), default=0.0),
        flushed_share(exponents, 1.0),
        flushed_share(exponents, scale),
    )
