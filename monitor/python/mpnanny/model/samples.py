"""A few numbers of a tensor, the same ones each time: enough to tell how far it has moved."""

from __future__ import annotations

import torch
from torch import nn

from ..steps.functional import plain


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
