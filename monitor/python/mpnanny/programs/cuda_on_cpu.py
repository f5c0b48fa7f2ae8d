"""Lets code that asks for a CUDA device run on the CPU, where no CUDA device is there: `.cuda()`,
`.to("cuda")`, `device="cuda"` mean the CPU while CudaOnCpu is on.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ..operators.places import pass_through

pass_through(__file__)

_CPU = torch.device("cpu")


def _is_cuda(value: Any) -> bool:
    if isinstance(value, str):
        return value == "cuda" or value.startswith("cuda:")
    return isinstance(value, torch.device) and value.type == "cuda"


class CudaOnCpu(TorchFunctionMode):
    """Notes in `asked` whether anything asked for CUDA."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = False

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.Tensor.cuda:
            self.asked = True
            return args[0]
        if any(map(_is_cuda, args)):
            self.asked = True
            args = tuple(_CPU if _is_cuda(each) else each for each in args)
        if _is_cuda(kwargs.get("device")):
            self.asked = True
            kwargs = {**kwargs, "device": _CPU}
        if kwargs.get("pin_memory"):
            kwargs = {**kwargs, "pin_memory": False}
        return func(*args, **kwargs)
