"""A few numbers of a tensor, the same ones each time: enough to tell how far it has moved."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .functional import plain

_MOST_PARAMETERS = 512  # of an optimizer
_NUMBERS = 256  # of a gradient


def is_readable(tensor: torch.Tensor) -> bool:
    """Whether it has floating-point numbers of its own: no shard, not sparse, fake or wrapped."""
    known = type(tensor) in (torch.Tensor, nn.Parameter) and plain(tensor) is tensor
    usual = tensor.layout is torch.strided and tensor.is_floating_point() and not tensor.is_meta
    return known and usual and tensor.numel() > 0


def row(tensor: torch.Tensor, most: int) -> torch.Tensor:
    """min(most, numel) of its numbers, spread over it, in float32 on its device. May be a view."""
    flat, numel = tensor.detach(), tensor.numel()
    if flat.is_contiguous() or flat.is_contiguous(memory_format=_format_of(flat)):
        found = flat.as_strided((min(most, numel),), (max(1, numel // most),))  # no copy of it all
    else:
        found = flat.flatten()[:: max(1, numel // most)][:most]
    return found if found.dtype is torch.float32 else found.float()


def _format_of(tensor: torch.Tensor) -> torch.memory_format:
    return torch.channels_last if tensor.dim() == 4 else torch.contiguous_format


def may_read() -> bool:
    """Whether a device may be waited for: not while its work is recorded as a graph."""
    return not (torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())


def gradient_numbers(optimizer: Any) -> torch.Tensor | None:
    """A few numbers of each of its gradients, the same ones each time; 0 where there is none.
    Float32, on the CPU. None where there is nothing to read.
    """
    parts: dict[torch.device, list[torch.Tensor]] = {}
    count = 0
    for group in optimizer.param_groups:
        for each in group["params"]:
            count += 1
            if count > _MOST_PARAMETERS or not is_readable(each):
                continue
            gradient = each.grad
            if gradient is None or not is_readable(gradient):
                count_of = min(_NUMBERS, each.numel())
                numbers = torch.zeros(count_of, dtype=torch.float32, device=each.device)
            else:
                numbers = row(gradient, _NUMBERS)
            parts.setdefault(each.device, []).append(numbers)
    if not parts:
        return None
    return torch.cat([torch.cat(rows).cpu() for rows in parts.values()])
