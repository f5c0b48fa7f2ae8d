"""What an optimizer's step did to the weights of a device: the same few numbers of each, before it
and after it, and of their gradients. They come to the host with the step's mail, where the core
measures them as it does those of a CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..base.device_kernels import is_dense
from ..base.later import Mail
from .figures import readable

# Of one tensor, as the core takes them of a CPU's (monitor/core/update_samples.h): runs of
# numbers in even spacing over its memory.
MOST, RUN = 8192, 1024


class Sampled:
    """Numbers of some tensors, on their way to the host."""

    def __init__(self, mail: Mail, tensors: Sequence[torch.Tensor | None]) -> None:
        """`tensors`: dense ones; of None there is nothing."""
        self._places: list[tuple[torch.dtype, int] | None] = []  # and the number of the part
        self._sizes: dict[torch.dtype, list[int]] = {}
        self._arriving: dict[torch.dtype, torch.Tensor] = {}
        parts: dict[torch.dtype, list[torch.Tensor]] = {}
        for tensor in tensors:
            if tensor is None:
                self._places.append(None)
                continue
            of = parts.setdefault(tensor.dtype, [])
            self._places.append((tensor.dtype, len(of)))
            of.append(_runs(tensor))
        for dtype, of in parts.items():
            together = torch.cat(of)  # a copy, before somebody writes
            pinned = together.device.type == "cuda"
            self._arriving[dtype] = torch.empty(together.shape, dtype=dtype, pin_memory=pinned)
            self._sizes[dtype] = [each.numel() for each in of]
            mail.bring(self._arriving[dtype], together)

    def arrived(self) -> list[torch.Tensor | None]:
        """Of each tensor its numbers; once the mail is open."""
        parts = {
            dtype: values.split(self._sizes[dtype]) for dtype, values in self._arriving.items()
        }
        return [None if place is None else parts[place[0]][place[1]] for place in self._places]


class DeviceUpdates:
    """Of one step. To be used without gradients being recorded."""

    def __init__(self, mail: Mail) -> None:
        self._mail = mail
        self._before: dict[int, Sampled] = {}  # by the first layer of an optimizer's weights

    def before(self, layers: list[int], weights: list[Any]) -> None:
        """`weights`: one optimizer's, before its step."""
        self._before[layers[0]] = Sampled(self._mail, [_dense(each) for each in weights])

    def after(
        self, layers: list[int], weights: list[Any], gradients: list[Any], judge: list[bool]
    ) -> Any:
        """What tells the core of them, once the mail is open; None without a before()."""
        before = self._before.pop(layers[0], None)
        if before is None:
            return None
        after = Sampled(self._mail, [_dense(each) for each in weights])
        of_weights = zip(weights, gradients, strict=True)
        slopes = Sampled(self._mail, [_alike(each, slope) for each, slope in of_weights])

        def tell(core: Any) -> None:
            rows = zip(
                layers, before.arrived(), after.arrived(), slopes.arrived(), judge, strict=True
            )
            known = [row for row in rows if row[1] is not None and row[2] is not None]
            numbers = [row[0] for row in known]
            core.before_update(numbers, [row[1] for row in known])
            core.after_update(
                numbers,
                [row[2] for row in known],
                [row[3] for row in known],
                [row[4] for row in known],
            )

        return tell


def _dense(value: Any) -> torch.Tensor | None:
    tensor = readable(value)
    return tensor if tensor is not None and is_dense(tensor) else None


def _alike(weight: Any, gradient: Any) -> torch.Tensor | None:
    """A gradient that lies in memory as its weight does."""
    held, slope = readable(weight), readable(gradient)
    if held is None or slope is None or slope.shape != held.shape:
        return None
    return slope if slope.stride() == held.stride() and is_dense(slope) else None


def _runs(tensor: torch.Tensor) -> torch.Tensor:
    numel = tensor.numel()
    flat = tensor.detach().as_strided((numel,), (1,))
    if numel <= MOST:
        return flat
    runs = MOST // RUN
    return flat.as_strided((runs, RUN), (numel // runs, 1)).reshape(-1)
