"""TF32 simulated: the operands of every FP32 matrix product are rounded to 10 bits of mantissa, as
torch.backends.cuda.matmul.allow_tf32 and cudnn.allow_tf32 have it, forward and backward.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_map

from ..operators.as_called import run_as_called
from ..operators.modes import ModeStack, StepMode
from ..operators.places import pass_through
from .formats import FORMATS
from .units import multiplies

pass_through(__file__)


class _Operands(StepMode):
    supports_higher_order_operators = True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        schema = getattr(func, "_schema", None)
        if self.looking and schema is not None and multiplies(schema.name):
            args, kwargs = tree_map(_rounded, (args, kwargs))
        return run_as_called(func, args, kwargs)


def _rounded(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.dtype is torch.float32 and value.dim() > 1:
        return FORMATS["tf32"].rounded(value)
    return value


@contextlib.contextmanager
def tf32_products() -> Iterator[None]:
    """Matrix products of this thread are those of TF32, of the backward pass as well."""
    stack = ModeStack()
    mode = _Operands()  # type: ignore[no-untyped-call]
    stack.push(mode, eager=True)
    try:
        yield
    finally:
        mode.looking = False
        stack.remove(mode)
