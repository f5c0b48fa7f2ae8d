"""Which modules have to leave the 16-bit format, by the readings of one step."""

from __future__ import annotations

import math
from collections.abc import Collection

import torch

from .readings import Reading

LARGEST = {torch.float16: 65504.0, torch.bfloat16: 3.3895e38}


def overflowing(
    readings: list[Reading], dtype: torch.dtype, near: float, islands: Collection[str]
) -> dict[str, str]:
    """Modules and why: that of the first operator whose result is not finite, and all whose results
    in 16 bits come nearer to the format's end than a factor of `near`. `islands`: those in FP32.
    """
    limit = LARGEST[dtype] / near
    found = {}
    bad = [each for each in readings if each.bad_at is not None]
    if bad:
        first = min(bad, key=lambda each: each.bad_at or 0)
        # What comes in so, or is so in FP32 too, no format cures.
        if first.name not in islands and not _data_is_bad(readings):
            found[first.name] = f"{first.bad_operator} is not finite"
    for each in readings:
        if each.name not in islands and each.low > limit:
            found.setdefault(each.name, f"{each.low_operator} gives {each.low:.4g}")
    return found


def _data_is_bad(readings: list[Reading]) -> bool:
    return any(each.name == "" and math.isinf(each.inputs) for each in readings)


def overflowing_gradients(readings: list[Reading], islands: Collection[str]) -> dict[str, str]:
    """The module in which a gradient first becomes not finite on its way back, if there is one: the
    innermost that gets finite gradients and gives others.
    """
    turning = [
        each.name
        for each in reversed(readings)
        if 0 < each.output_gradients < math.inf
        and (math.isinf(each.input_gradients) or math.isinf(each.parameter_gradients))
    ]
    for name in turning:
        start = name + "." if name else ""
        innermost = not any(other != name and other.startswith(start) for other in turning)
        if innermost and name not in islands:
            return {name: "gradient becomes not finite"}
    return {}
