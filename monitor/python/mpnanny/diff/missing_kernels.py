"""Operators that the CPU has in FP32 and not in FP16 or BF16: computed in FP32 and rounded, as the
device that has them would.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_map

from ..operators.as_called import run_as_called
from ..operators.modes import StepMode
from ..operators.places import pass_through

pass_through(__file__)

_HALVES = (torch.float16, torch.bfloat16)


class MissingKernels(StepMode):
    """Lies below all others. `names`: of the operators that were computed so."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: set[str] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        try:
            return run_as_called(func, args, kwargs)
        except (RuntimeError, NotImplementedError) as error:
            if "not implemented for" not in str(error):
                raise
            return self._in_float32(func, args, kwargs, error)

    def _in_float32(self, func: Any, args: Any, kwargs: Any, error: Exception) -> Any:
        kinds: list[torch.dtype] = []
        tree_map(lambda each: kinds.append(each.dtype) if _is_half(each) else None, (args, kwargs))
        schema = getattr(func, "_schema", None)
        if not kinds or schema is None or schema.is_mutable:
            raise error
        wide_args, wide_kwargs = tree_map(
            lambda each: each.float() if _is_half(each) else each, (args, kwargs)
        )
        result = func(*wide_args, **wide_kwargs)
        self.names.add(str(func).removesuffix(".default"))
        return tree_map(
            lambda each: (
                each.to(kinds[0])
                if isinstance(each, torch.Tensor) and each.dtype is torch.float32
                else each
            ),
            result,
        )


def _is_half(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in _HALVES
