"""The same draws in every format: dropout of a device draws in an order set by the dtype."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode


class _SameDropout(TorchFunctionMode):
    """Dropout draws in FP32, whatever it drops from. What attention drops inside of its own kernel
    is left out.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if func is functional.dropout:
            return _dropped(*args, **kwargs)
        if name in ("dropout", "dropout_"):  # torch's own; not one object each time it is asked for
            return _torch_dropped(name == "dropout_", *args, **kwargs)
        if func is functional.scaled_dot_product_attention:
            # Arguments: query, key, value, attn_mask, dropout_p, …
            if len(args) > 4:
                args = (*args[:4], 0.0, *args[5:])
            elif "dropout_p" in kwargs:
                kwargs["dropout_p"] = 0.0
        return func(*args, **kwargs)


def _torch_dropped(inplace: bool, input: torch.Tensor, p: float, train: bool) -> torch.Tensor:
    return _dropped(input, p, train, inplace)


def _dropped(
    input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> torch.Tensor:
    """As functional.dropout."""
    if not training or p == 0:
        return input
    kept = torch.empty(input.shape, dtype=torch.float32, device=input.device)
    if p < 1:
        kept = kept.bernoulli_(1 - p).div_(1 - p)
    else:
        kept = kept.zero_()
    made = (input.float() * kept).to(input.dtype)
    return input.copy_(made) if inplace else made


def same_draws(device: str) -> contextlib.AbstractContextManager[Any]:
    """Around a forward pass and its backward pass. On the CPU draws are the same already."""
    return contextlib.nullcontext() if device == "cpu" else _SameDropout()
