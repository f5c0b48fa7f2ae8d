"""Which ranks should hold the same as this one, as the program itself says: parameters that
DistributedDataParallel wraps, DTensors that are replicated.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ..model.shards import is_sharded


@dataclass(frozen=True, slots=True)
class Holders:
    """`ranks`: as ranges(); "" where nothing says who holds the same. `first`: place of this
    rank's first element in the whole tensor, -1 where its elements do not lie in one piece there.
    """

    ranks: str = ""
    first: int = 0


NOBODY = Holders()


def ranges(ranks: Iterable[int]) -> str:
    """'0-3,8' of 0, 1, 2, 3, 8."""
    parts: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if parts and rank == parts[-1][1] + 1:
            parts[-1][1] = rank
        else:
            parts.append([rank, rank])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in parts)


class HoldersOf:
    """Of the tensors of one model. `look()` finds who wraps it, by a walk through the objects of
    the process: once, and not in every step.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._by_wrapper: dict[int, str] = {}  # ids of parameters and buffers

    def look(self) -> None:
        self._by_wrapper.clear()
        own = {id(module) for module in self._model.modules()}
        parallel = nn.parallel.DistributedDataParallel
        for each in [each for each in gc.get_objects() if type(each) is parallel]:
            if id(each.module) in own or any(id(m) in own for m in each.module.modules()):
                self._take(each)

    def _take(self, wrapper: Any) -> None:
        ranks = ranges(torch.distributed.get_process_group_ranks(wrapper.process_group))
        ignored = wrapper.parameters_to_ignore
        for name, parameter in wrapper.module.named_parameters():
            if parameter.requires_grad and name not in ignored:
                self._by_wrapper[id(parameter)] = ranks
        if wrapper.broadcast_buffers:
            for name, buffer in wrapper.module.named_buffers():
                if name not in ignored:
                    self._by_wrapper[id(buffer)] = ranks

    def of(self, tensor: Any) -> Holders:
        if is_sharded(type(tensor)):
            return _of_dtensor(tensor)
        ranks = self._by_wrapper.get(id(tensor))
        return Holders(ranks) if ranks else NOBODY


def _of_dtensor(tensor: Any) -> Holders:
    mesh, placements = tensor.device_mesh, tensor.placements
    coordinate = mesh.get_coordinate()
    if coordinate is None or any(each.is_partial() for each in placements):
        return Holders("", -1)
    ranks = mesh.mesh
    for dim in reversed(range(len(placements))):
        if not placements[dim].is_replicate():
            ranks = ranks.select(dim, coordinate[dim])
    return Holders(ranges(ranks.reshape(-1).tolist()), _first_of(tensor))


def _first_of(tensor: Any) -> int:
    """A part of whole rows lies in one piece."""
    sharded = [each for each in tensor.placements if not each.is_replicate()]
    if not sharded:
        return 0
    if any(type(each).__name__ != "Shard" or each.dim != 0 for each in sharded):
        return -1
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    shape, mesh = tensor.shape, tensor.device_mesh
    _, offset = compute_local_shape_and_global_offset(shape, mesh, tensor.placements)
    return int(offset[0]) * (tensor.numel() // max(shape[0], 1))
