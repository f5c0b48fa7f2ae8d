"""FP32 islands inside of autocast. choose_precision gives `keep_fp32` as it stands here, so it
needs nothing but torch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch.utils._pytree import tree_map


def keep_fp32(
    model: torch.nn.Module, islands: Collection[str], dtype: torch.dtype, device_type: str = "cuda"
) -> Callable[[], None]:
    """Modules named in `islands` compute their own operators in FP32 inside of autocast; modules
    within them stay in `dtype`. Call it once, after the model is built. Outside of autocast
    nothing changes. Returns a function that takes it back.
    """
    active: list[bool] = []
    wrapped: list[tuple[torch.nn.Module, Any]] = []

    def fp32(value: Any) -> Any:
        is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
        return value.float() if is_float else value

    def wrap(module: torch.nn.Module, is_island: bool) -> None:
        forward = module.forward

        def run(*args: Any, **kwargs: Any) -> Any:
            if not (torch.is_autocast_enabled(device_type) if is_island else any(active[-1:])):
                return forward(*args, **kwargs)
            if is_island:
                args, kwargs = tree_map(fp32, (args, kwargs))
            active.append(is_island)
            try:
                with torch.autocast(device_type, dtype=dtype, enabled=not is_island):
                    result = forward(*args, **kwargs)
            finally:
                active.pop()
            return result if is_island else tree_map(fp32, result)

        wrapped.append((module, vars(module).get("forward")))
        module.forward = run

    def wrap_children(module: torch.nn.Module, name: str) -> None:
        for child_name, child in module.named_children():
            full_name = f"{name}.{child_name}" if name else child_name
            if isinstance(child, (torch.nn.ModuleList, torch.nn.ModuleDict)):
                wrap_children(child, full_name)
            elif full_name not in islands:
                wrap(child, False)

    for name in sorted(islands):
        wrap_children(model.get_submodule(name), name)
        wrap(model.get_submodule(name), True)

    def take_back() -> None:
        for module, own in reversed(wrapped):
            del module.forward
            if own is not None:
                module.forward = own

    return take_back
