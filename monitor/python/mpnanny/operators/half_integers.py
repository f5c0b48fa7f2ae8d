"""Integers kept in FP16 or BF16, which hold every one up to 2048 and 256 only: positions made by
arange, ids that are cast, counters that stop. Looked for in the operators of a traced step.
"""

from __future__ import annotations

from typing import Any

import torch

_LIMITS = {torch.float16: 2048, torch.bfloat16: 256}
MAX_ELEMENTS = 1_000_000


def makes_integers(operator: str) -> bool:
    return operator in ("aten::arange", "aten::_to_copy", "aten::add", "aten::add_")


def lost_integers(operator: str, args: tuple[Any, ...], result: Any) -> str | None:
    """What to say of an operator for which makes_integers() holds, or None. Only where different
    integers have really become one.
    """
    if type(result) is not torch.Tensor or result.dtype not in _LIMITS:
        return None
    count = result.numel()
    if result.device.type != "cpu" or not 0 < count <= MAX_ELEMENTS:
        return None
    dtype, limit = str(result.dtype)[6:], _LIMITS[result.dtype]
    if operator.startswith("aten.add"):
        one = len(args) > 1 and type(args[1]) in (int, float) and args[1] == 1
        if not one or count != 1 or float(result.detach()) != limit:
            return None
        # Whether it came there from below or stays: limit + 1 rounds to limit either way.
        before = args[0] if operator.startswith("aten.add.") else None
        if isinstance(before, torch.Tensor) and float(before.detach()) != limit:
            return None
        return f"a counter in {dtype} stays at {limit}: {limit} + 1 is {limit} there"
    source = args[0] if args else None
    if operator.startswith("aten.arange"):
        different = count
    elif isinstance(source, torch.Tensor) and source.dtype in (torch.int32, torch.int64):
        different = int(torch.unique(source).numel())
    else:
        return None
    left = int(torch.unique(result.detach()).numel())
    if left >= different:
        return None
    return (
        f"{different} different integers became {left} in {dtype} by {operator}:"
        f" from {limit} on neighbours are one"
    )
