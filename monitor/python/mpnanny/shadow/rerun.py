"""The failing step itself, when no shadow was on: a forward pass is run again on the same inputs
under the shadow, at once.

Nothing of it stays: generators, buffers and attributes are put back, hooks do not run a second
time, inputs are copies. Buffers are exchanged for copies while it runs and not written back, so
that their version counters stay as autograd has them.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as torch_module
from torch.utils._pytree import tree_map

_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks_with_kwargs",
    "_backward_hooks",
    "_backward_pre_hooks",
)
_GLOBAL_HOOKS = (
    "_global_forward_hooks",
    "_global_forward_pre_hooks",
    "_global_forward_hooks_always_called",
    "_global_forward_hooks_with_kwargs",
    "_global_backward_hooks",
    "_global_backward_pre_hooks",
)


def copied(value: Any, keep_graph: bool = False) -> Any:
    """The inputs of a call in memory of their own."""

    def copy(each: Any) -> Any:
        if not isinstance(each, torch.Tensor):
            return each
        fresh = each.detach().clone()
        return fresh.requires_grad_() if keep_graph and each.requires_grad else fresh

    return tree_map(copy, value)


@contextlib.contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """Whatever runs inside leaves `model` and the generators as they are, and calls no hooks."""
    modules = list(model.modules())
    dicts = [dict(module.__dict__) for module in modules]
    buffers = [dict(module._buffers) for module in modules]
    global_hooks = {name: getattr(torch_module, name, None) for name in _GLOBAL_HOOKS}
    cpu = torch.get_rng_state()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    try:
        for module in modules:
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    module._buffers[name] = buffer.detach().clone()
            for name in _HOOKS:
                if module.__dict__.get(name):
                    module.__dict__[name] = OrderedDict()
        for name, value in global_hooks.items():
            if value is not None:
                setattr(torch_module, name, OrderedDict())
        yield
    finally:
        for name, value in global_hooks.items():
            if value is not None:
                setattr(torch_module, name, value)
        for module, attributes, kept in zip(modules, dicts, buffers, strict=True):
            module.__dict__.clear()
            module.__dict__.update(attributes)
            module._buffers.clear()
            module._buffers.update(kept)
        torch.set_rng_state(cpu)
        if cuda:
            torch.cuda.set_rng_state_all(cuda)


@contextlib.contextmanager
def without_cast_cache(device: str) -> Iterator[None]:
    """Autocast as it is, but for its cache: casts made here must not be used by the training."""
    enabled = torch.is_autocast_enabled(device)
    dtype = torch.get_autocast_dtype(device)
    with torch.autocast(device, dtype=dtype, enabled=enabled, cache_enabled=False):
        yield
