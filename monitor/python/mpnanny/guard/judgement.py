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
    """Modules and why, of the innermost that explain it. `near`: how many times the format's end has
    to be away. `islands`: those that are in FP32 already.
    """
    limit = LARGEST[dtype] / near
    found: dict[str, str] = {}
    blamed: set[str] = set()  # modules that hold one that was found
    for each in readings:
        if each.name in islands:
            if math.isinf(each.outputs) and not math.isinf(each.inputs):
                blamed.add(each.name)  # FP32 does not cure it: no parent is to blame either
            continue
        if _holds(each.name, found.keys() | blamed):
            continue
        why = _why(each, limit)
        if why:
            found[each.name] = why
    return found


def _why(each: Reading, limit: float) -> str:
    if math.isinf(each.inputs):
        return ""  # it came in from elsewhere
    if math.isinf(each.outputs):
        return "output is not finite"
    if each.low and each.outputs > limit:
        return f"output of {each.outputs:.4g} is near the format's end"
    if each.low and each.inputs > limit:
        return f"input of {each.inputs:.4g} is near the format's end"
    return ""


def overflowing_gradients(readings: list[Reading], islands: Collection[str]) -> dict[str, str]:
    """The module in which the gradient first becomes not finite on its way back, if there is one."""
    for each in reversed(readings):
        if each.name in islands or math.isinf(each.output_gradients):
            continue
        inside = math.isinf(each.input_gradients) or math.isinf(each.parameters)
        if inside and each.output_gradients > 0 and not _has_child(each.name, readings):
            return {each.name: "gradient becomes not finite in it"}
    return {}


def _holds(name: str, others: Collection[str]) -> bool:
    """Whether module `name` is around one of `others`."""
    return any(other != name and (not name or other.startswith(name + ".")) for other in others)


def _has_child(name: str, readings: list[Reading]) -> bool:
    return _holds(name, {each.name for each in readings})
