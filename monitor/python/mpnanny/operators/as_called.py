"""Runs an operator within a dispatch mode as it runs without one.

torch leaves autocast out of what a mode's __torch_dispatch__ calls. For most operators that is
nothing, since autocast has cast their inputs before; a kernel that calls other operators itself
(the fast path of nn.TransformerEncoderLayer, any composite operator under inference_mode) would
compute in other dtypes than the program, or refuse its inputs.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import torch

from .places import pass_through

pass_through(__file__)

_as_entered: Any = getattr(torch._C, "_RestorePythonTLSSnapshot", None)
_excluding: Any = getattr(torch._C, "_SetExcludeDispatchKeyGuard", None)
_has_kernel: Any = getattr(torch._C, "_dispatch_has_kernel_for_dispatch_key", None)

# Kernels that call operators of autocast's lists, and that nothing but modules calls.
_FAST_PATHS = {"aten::_transformer_encoder_layer_fwd", "aten::_native_multi_head_attention"}


@functools.cache
def _autocasts() -> tuple[tuple[str, str], ...]:
    """Device types for which this process may be under autocast, with the dispatch key of each."""
    names = {"cpu": "CPU", "cuda": "CUDA", "xpu": "XPU", "mps": "MPS", "hpu": "HPU", "mtia": "MTIA"}
    devices = ["cpu"]
    current: Any = getattr(getattr(torch, "accelerator", None), "current_accelerator", None)
    here = current() if current is not None else None
    if here is not None:
        devices.append(here.type)
    elif torch.cuda.is_available():
        devices.append("cuda")
    return tuple((device, "Autocast" + names.get(device, "PrivateUse1")) for device in devices)


@functools.cache
def _is_fast_path(func: Any) -> bool:
    return hasattr(func, "name") and func.name() in _FAST_PATHS


@functools.cache
def _is_listed(func: Any, key: str) -> bool:
    """Whether autocast has a rule of its own for the operator: then its inputs are cast, and what
    its kernel calls runs without autocast.
    """
    return bool(_has_kernel(func.name(), key))


def run_as_called(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What `func` gives, called from a mode's __torch_dispatch__, under the autocast that was on
    where the program called it.

    Under inference_mode the operator that arrives is the one that was called. Otherwise autograd
    has taken composite operators apart before, and an operator within one of autocast's lists runs
    without autocast also in the program: only the fast paths are left.
    """
    if not torch.is_inference_mode_enabled() and not _is_fast_path(func):
        return func(*args, **kwargs)
    if _as_entered is None or _excluding is None or _has_kernel is None:
        return func(*args, **kwargs)
    with _as_entered():
        on = [key for device, key in _autocasts() if torch.is_autocast_enabled(device)]
    with contextlib.ExitStack() as autocast:
        for key in on:
            if not _is_listed(func, key):
                autocast.enter_context(_excluding(getattr(torch._C.DispatchKey, key), False))
        return func(*args, **kwargs)
