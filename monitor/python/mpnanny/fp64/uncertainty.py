"""How far the values that came into a step may be from what the program meant them to be.

The FP64 reference starts from them, and what is computed of values that had been rounded before
proves nothing about precision. Parameters, buffers and a batch as the program has made it are taken
as they are. Values with 16 bits, or FP32 values all of which lie on the grid of such a format, were
rounded before; so may be what an earlier step has computed, or NumPy. Of what an operator made that
is not followed nothing is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .comparison import on_host

HALVES = (torch.float16, torch.bfloat16)
UNKNOWN = math.inf
ROUNDED = 1e-5  # an uncertainty above this is that of a format with 16 bits, or more
MOST_KEPT = 4096
MOST_LOOKED_AT = 4096  # elements
_LEAST_LOOKED_AT = 8
# Bits of an FP32 mantissa that are 0 on the grid of a format: eps of the format by their mask.
_GRIDS = ((0xFFFF, torch.bfloat16), (0x1FFF, torch.float16))
_COARSE = 0x0FFFFF  # numbers with four bits, as 0.5 or 0.75, lie on every grid
_ACCURATE = 4 * torch.finfo(torch.float32).eps


class Kept:
    """Memory that shadow steps have computed, and that was still there at their end. Of one run."""

    def __init__(self) -> None:
        self._errors: dict[int, tuple[StorageWeakRef, float]] = {}

    def remember(self, found: Iterable[tuple[StorageWeakRef, float]]) -> None:
        """Memory with its relative error against the reference."""
        self._errors = {key: each for key, each in self._errors.items() if not each[0].expired()}
        self._errors.update((memory.cdata, (memory, error)) for memory, error in found)
        while len(self._errors) > MOST_KEPT:
            del self._errors[next(iter(self._errors))]

    def error(self, memory: int) -> float:
        """0: it has none, or no shadow step has made it."""
        known = self._errors.get(memory)
        return 0.0 if known is None or known[0].expired() else known[1]


class Uncertainty:
    """Of one shadow step. `is_leaf(tensor)`: whether it is a parameter or a buffer."""

    def __init__(self, is_leaf: Callable[[torch.Tensor], bool], kept: Kept) -> None:
        self._is_leaf = is_leaf
        self._kept = kept
        self.lost: set[int] = set()  # memory that was made in the step, and not followed
        self.all_lost = False
        # Where a part of a step runs again: the memory of the batch. None: what comes in is that.
        self.batch: set[int] | None = None

    def loses(self, tensors: Iterable[torch.Tensor]) -> None:
        """They were made by what is not followed."""
        self.lost.update(each.untyped_storage()._cdata for each in tensors)

    def of(self, tensor: torch.Tensor) -> tuple[float, bool]:
        """By what part of themselves the values of memory that comes into the step may be off, and
        whether they count as computed before.
        """
        memory = tensor.untyped_storage()._cdata
        eps = torch.finfo(tensor.dtype).eps
        if self._is_leaf(tensor):
            return (eps if tensor.dtype in HALVES else 0.0), False
        if memory in self.lost or self.all_lost:
            return UNKNOWN, True
        error = self._kept.error(memory)
        if error > _ACCURATE:
            return UNKNOWN, True
        grid = grid_of(tensor)
        if grid:
            return grid, True
        is_intermediate = tensor.grad_fn is not None or error > 0
        if self.batch is not None and tensor.dim():  # a single number is a constant, as a rule
            is_intermediate = is_intermediate or memory not in self.batch
        return (eps, True) if is_intermediate or _is_of_numpy(tensor) else (0.0, False)


def _is_of_numpy(tensor: torch.Tensor) -> bool:
    """Memory that NumPy owns, with values that are no counts, ids or flags."""
    if not on_host(tensor) or tensor.untyped_storage().resizable():
        return False
    sample = _sample(tensor)
    return not bool((sample == sample.round()).all())


def _sample(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.detach().flatten()
    return flat[:: max(1, len(flat) // MOST_LOOKED_AT)]


def grid_of(tensor: torch.Tensor) -> float:
    """The eps of the narrow format on whose grid all values of a tensor lie; 0: of none."""
    if torch.finfo(tensor.dtype).eps > ROUNDED:
        return torch.finfo(tensor.dtype).eps
    if tensor.dtype is not torch.float32 or not on_host(tensor):
        return 0.0
    sample = _sample(tensor)
    sample = sample[sample.isfinite() & (sample != sample.round())]
    if len(sample) < _LEAST_LOOKED_AT:
        return 0.0
    bits = sample.contiguous().view(torch.int32)
    if not bool((bits & _COARSE != 0).any()):
        return 0.0
    for mask, dtype in _GRIDS:
        if not bool((bits & mask != 0).any()):
            return torch.finfo(dtype).eps
    return 0.0
