"""Linear layers with FP8 operands, simulated: values and weights are scaled and rounded to E4M3,
gradients to E5M2, and multiplied in FP32, as FP8 tensor cores with FP32 accumulation do.

Scales are those of the values at hand (current scaling): one for a tensor, one for each row (over
the last dimension), or one for each block of 128 values of a row.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import linear as plain_linear

from ..operators.places import pass_through

pass_through(__file__)

GRANULARITIES = ("tensor", "row", "block")
BLOCK = 128


def rounded(values: torch.Tensor, dtype: torch.dtype, granularity: str) -> torch.Tensor:
    """`values` as FP32 numbers that `dtype` and the scale can hold."""
    values = values.float()
    if granularity == "block" and values.shape[-1] % BLOCK == 0:
        blocks = values.unflatten(-1, (-1, BLOCK))
        return rounded(blocks, dtype, "row").flatten(-2)
    if granularity == "tensor":
        largest = values.detach().abs().amax()
    else:
        largest = values.detach().abs().amax(-1, keepdim=True)
    scale = torch.finfo(dtype).max / largest.clamp_min(1e-30)
    return (values * scale).to(dtype).float() / scale


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, value: torch.Tensor, weight: torch.Tensor, granularity: str, low: torch.dtype
    ) -> torch.Tensor:
        held = rounded(value, torch.float8_e4m3fn, granularity)
        held_weight = rounded(weight, torch.float8_e4m3fn, granularity)
        ctx.save_for_backward(held, held_weight)
        ctx.granularity = granularity
        ctx.kinds = (value.dtype, weight.dtype)
        return plain_linear(held, held_weight).to(low)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        value, weight = ctx.saved_tensors
        held = rounded(gradient, torch.float8_e5m2, ctx.granularity)
        of_value = (held @ weight).to(ctx.kinds[0])
        of_weight = held.flatten(0, -2).t() @ value.flatten(0, -2)
        return of_value, of_weight.to(ctx.kinds[1]), None, None


def linear(
    value: torch.Tensor, weight: torch.Tensor, bias: Any, granularity: str, low: torch.dtype
) -> torch.Tensor:
    """torch.nn.functional.linear with FP8 operands; the result is `low`, as is the bias."""
    if value.dim() == 1:
        return linear(value[None], weight, bias, granularity, low)[0]
    made: torch.Tensor = _Linear.apply(value, weight, granularity, low)  # type: ignore[no-untyped-call]
    return made if bias is None else made + bias.to(low)
