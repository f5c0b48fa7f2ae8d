"""Products of matrices and convolutions whose result is held in 16 bits: their reference is
computed in FP32, several times faster than in FP64.

Its rounding, 2^-24 a product, is far below that of the held result. Everything between products
stays in FP64, so what cancels there loses nothing. Where the numbers leave the range in which FP32
is as good as that, FP64 does the product after all; on a device, which must not be waited for, such
a product is as good as the held one, and nothing is found there. Devices that are as fast in FP64
do all of them in it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import torch

from ..base.float32 import full_float32
from .call import Call, tensors_of
from .comparison import HALF_ULP, on_host
from .operators import Operator
from .thresholds import OF_PRODUCTS

_PRODUCTS = frozenset(
    f"aten::{name}"
    for name in (
        "mm",
        "addmm",
        "bmm",
        "baddbmm",
        "linear",
        "convolution",
        "convolution_backward",
        "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_flash_attention_for_cpu_backward",
    )
)
_CONVOLUTION_BACKWARD = torch.ops.aten.convolution_backward.default
_MASK = 10  # which gradients it is to make: of the input, the weight and the bias
_HALVES = (torch.float16, torch.bfloat16)
_WITH_FULL_FLOAT64 = ((6, 0), (7, 0), (8, 0), (9, 0), (10, 0))  # P100, V100, A100, H100, B200
# Below the first magnitude some of a result may have been too small for FP32; above the second FP32
# does not tell a whole number from its half.
_LEAST, _MOST = 1e-25, 2.0**23


def run(call: Call, args: Any, result: Any) -> Any:
    """The operator of `call` on references; `result` is the held one."""
    if _is_half_product(call.operator, result):
        held = next(tensors_of(result))
        if on_host(held):
            made = in_float32(call.function, args, call.reference_kwargs)
        else:
            with full_float32():
                made = in_float32(call.function, args, call.reference_kwargs, in_range=True)
        if made is not None:
            call.rounding = OF_PRODUCTS / HALF_ULP[held.dtype]
            return made
    return call.function(*args, **call.reference_kwargs)


def _is_half_product(operator: Operator, result: Any) -> bool:
    """Whether FP32 will do for the reference of `result`, the held one."""
    if operator.schema_name not in _PRODUCTS or operator.written:
        return False
    first = next(tensors_of(result), None)
    if first is None or first.dtype not in _HALVES:
        return False
    return _is_float32_full() if on_host(first) else _is_float64_slow(first.device)


@functools.cache
def _is_float64_slow(device: torch.device) -> bool:
    """Whether FP64 has a 32nd or less of the speed of FP32: CUDA devices but those for data centres
    (CUDA C++ programming guide, throughput of native arithmetic instructions).
    """
    if device.type != "cuda" or torch.version.hip:
        return False
    return torch.cuda.get_device_capability(device) not in _WITH_FULL_FLOAT64


def _is_float32_full() -> bool:
    """Whether torch computes products of FP32 in FP32: the program may allow less."""
    if torch.get_float32_matmul_precision() != "highest":
        return False
    backend = torch.backends.mkldnn
    parts = (getattr(backend, name, None) for name in ("matmul", "conv"))
    return all(getattr(part, "fp32_precision", "none") in ("none", "ieee") for part in parts)


def in_float32(function: Any, args: Any, kwargs: Any, in_range: bool = False) -> Any:
    """`function` of the references `args`, in FP32; None where FP64 is needed. `in_range`: nobody
    looks whether it is.
    """
    sums_gradient = function is _CONVOLUTION_BACKWARD and args[_MASK][2]
    narrow = _narrowed(args)
    if sums_gradient:
        narrow = (*narrow[:_MASK], [*narrow[_MASK][:2], False])
    made = function(*narrow, **_narrowed(kwargs))
    if not in_range and not all(map(_is_in_range, _floats(made))):
        return None
    if sums_gradient:
        # The bias's gradient is a sum and no product: before a normalisation it is an exact 0.
        gradient = args[0]
        made = (*made[:2], gradient.sum([at for at in range(gradient.dim()) if at != 1]))
    return made


def _narrowed(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(torch.float32) if value.dtype is torch.float64 else value
    if isinstance(value, (tuple, list)):
        return type(value)(_narrowed(each) for each in value)
    if isinstance(value, dict):
        return {key: _narrowed(each) for key, each in value.items()}
    return value


def _floats(value: Any) -> Iterator[torch.Tensor]:
    return (each for each in tensors_of(value) if each.is_floating_point() and each.numel())


def _is_in_range(tensor: torch.Tensor) -> bool:
    low, high = tensor.aminmax()
    return _LEAST <= max(-low.item(), high.item()) <= _MOST
