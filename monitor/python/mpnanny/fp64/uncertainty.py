"""How far the values that came into a step may be from what the program meant them to be.

The FP64 reference starts from them, and what is computed of values that had been rounded before
proves nothing about precision. Parameters, a batch and what was there before the first step are
taken as they are. Values with 16 bits, or FP32 values all of which lie on the grid of such a
format, were rounded before; so may be what an earlier step has computed, or NumPy. Of what an
operator made that is not followed nothing is known; nor, where the program computes in 16 bits at
all, of FP32 values, buffers and numbers that were made in a step that nobody followed.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .comparison import on_host
from .history import version_of

HALVES = (torch.float16, torch.bfloat16)
UNKNOWN = math.inf
ROUNDED = 1e-5  # an uncertainty above this is that of a format with 16 bits, or more
MOST_KEPT = 4096
MOST_LOOKED_AT = 4096  # elements
_LEAST_LOOKED_AT = 2  # different ones with more than four bits: by chance one in 8192 is on a grid
# Bits of an FP32 mantissa that are 0 on the grid of a format: eps of the format by their mask.
_GRIDS = ((0xFFFF, torch.bfloat16), (0x1FFF, torch.float16))
_MANTISSA = 0x7FFFFF
_COARSE = 0x0FFFFF  # numbers with four bits, as 0.5 or 0.75, lie on every grid
FEW = 8  # elements: each is looked at as a number
_LEAST_OF_HALF = torch.finfo(torch.float16).smallest_normal * torch.finfo(torch.float16).eps
_ACCURATE = 4 * torch.finfo(torch.float32).eps


class Kept:
    """Memory that shadow steps have computed, and that was still there at their end; and what was
    there before the first step. Of one run.
    """

    def __init__(self) -> None:
        self.narrow = False  # the program computes with less than 32 bits somewhere
        self.started = False  # the first step is over
        self._errors: dict[int, tuple[StorageWeakRef, float, tuple[int, ...], str]] = {}
        self._given: dict[int, tuple[StorageWeakRef, int]] = {}  # with their versions
        self._numbers: set[float] = set()  # that operators of the first step were called with
        self._read: set[float] = set()  # that the program has read from tensors with an error

    def remember(self, found: Iterable[tuple[StorageWeakRef, float, tuple[int, ...], str]]) -> None:
        """Memory with its relative error against the reference, at these versions, and the line
        that has made it.
        """
        self._errors = {key: each for key, each in self._errors.items() if not each[0].expired()}
        self._errors.update((each[0].cdata, each) for each in found)
        while len(self._errors) > MOST_KEPT:
            del self._errors[next(iter(self._errors))]

    def error(self, memory: int) -> float:
        """0: it has none, or no shadow step has made it."""
        known = self._errors.get(memory)
        return 0.0 if known is None or known[0].expired() else known[1]

    def made_at(self, memory: int) -> str:
        """The line that has made it in an earlier shadow step, or ""."""
        known = self._errors.get(memory)
        return "" if known is None or known[0].expired() else known[3]

    def enters(self, tensor: torch.Tensor) -> None:
        """A step begins with it."""
        if not self.started and len(self._given) < MOST_KEPT:
            storage = tensor.untyped_storage()
            self._given[storage._cdata] = StorageWeakRef(storage), version_of(tensor)

    def is_given(self, tensor: torch.Tensor) -> bool:
        """Whether it is what it was before the first step, or at the end of a shadow step."""
        memory, version = tensor.untyped_storage()._cdata, version_of(tensor)
        given = self._given.get(memory)
        if given is not None and not given[0].expired() and given[1] == version:
            return True
        known = self._errors.get(memory)
        return known is not None and not known[0].expired() and version in known[2]

    def reads(self, value: float, has_error: bool) -> None:
        """The program reads a number from a tensor."""
        if has_error and len(self._read) < MOST_KEPT:
            self._read.add(value)

    def uses(self, value: float) -> None:
        """An operator is called with a number."""
        if not self.started and len(self._numbers) < MOST_KEPT:
            self._numbers.add(value)

    def of_number(self, value: float) -> float:
        """By what part of itself a number that is no whole one may be off: it has been in 16 bits,
        or nobody knows what it was computed of.
        """
        if not self.narrow or not math.isfinite(value):
            return 0.0
        if value in self._read:
            return torch.finfo(torch.bfloat16).eps
        if value == round(value):
            return 0.0
        for _, dtype in _GRIDS:
            eps = torch.finfo(dtype).eps
            steps = math.frexp(value)[0] * 2 / eps
            if steps == round(steps):
                return 0.0 if 16 * eps * steps == round(16 * eps * steps) else eps
        return 0.0 if value in self._numbers or _is_written(value) else UNKNOWN


class Uncertainty:
    """Of one shadow step. `is_leaf(tensor)`: whether it is a parameter or a buffer."""

    def __init__(self, is_leaf: Callable[[torch.Tensor], bool], kept: Kept) -> None:
        self._is_leaf = is_leaf
        self.kept = kept
        self.lost: set[int] = set()  # memory that was made in the step, and not followed
        self.all_lost = False
        self._drawn: set[int] = set()  # memory that was made in the step of nothing
        self._written_down: set[int] = set()  # of numbers of Python
        # Where a part of a step runs again: the memory of the batch. None: what comes in is that.
        self.batch: set[int] | None = None

    def loses(self, tensors: Iterable[torch.Tensor]) -> None:
        """They were made by what is not followed."""
        self.lost.update(each.untyped_storage()._cdata for each in tensors)

    def draws(self, tensors: Iterable[torch.Tensor]) -> None:
        """They were made of no tensors, as random numbers are, or are a batch once more."""
        self._drawn.update(each.untyped_storage()._cdata for each in tensors)

    def writes_down(self, tensor: torch.Tensor) -> None:
        """It was made of numbers of Python."""
        self._written_down.add(tensor.untyped_storage()._cdata)

    def of(self, tensor: torch.Tensor) -> tuple[float, bool]:
        """By what part of themselves the values of memory that comes into the step may be off, and
        whether they count as computed before.
        """
        memory, kept = tensor.untyped_storage()._cdata, self.kept
        eps = torch.finfo(tensor.dtype).eps
        if self._is_leaf(tensor):
            return self._of_leaf(tensor, eps), False
        if memory in self.lost or self.all_lost:
            return UNKNOWN, True
        error = kept.error(memory)
        if error > _ACCURATE:
            return UNKNOWN, True
        kept.enters(tensor)
        is_given = memory in self._drawn or (self.batch is not None and memory in self.batch)
        if not is_given and kept.narrow and not kept.is_given(tensor):
            unknown = self._of_unknown(tensor)
            if unknown:
                return unknown, True
        grid = grid_of(tensor)
        if grid:
            return grid, True
        is_intermediate = tensor.grad_fn is not None or error > 0
        if self.batch is not None and tensor.dim():  # a single number is a constant, as a rule
            is_intermediate = is_intermediate or not is_given
        return (eps, True) if is_intermediate or _is_of_numpy(tensor) else (0.0, False)

    def _of_leaf(self, tensor: torch.Tensor, eps: float) -> float:
        """Weights are as they are; a buffer may be a statistic that a step has kept."""
        if tensor.dtype in HALVES:
            return eps
        if tensor.requires_grad:
            return 0.0
        self.kept.enters(tensor)
        is_kept = self.kept.narrow and not self.kept.is_given(tensor)
        return max(grid_of(tensor), self._of_unknown(tensor)) if is_kept else 0.0

    def _of_unknown(self, tensor: torch.Tensor) -> float:
        """Of memory that came to be after the first step, in a program that computes in 16 bits."""
        if tensor.is_shared() or _is_of_numpy(tensor):  # data from elsewhere
            return 0.0
        if tensor.untyped_storage()._cdata in self._written_down:
            if tensor.numel() <= FEW:
                return max(map(self.kept.of_number, tensor.flatten().tolist()), default=0.0)
            sample = _sample(tensor)
            return 0.0 if bool((sample == sample.round()).all()) else UNKNOWN
        if tensor.numel() == 1:  # a count, a loss scale
            value = float(tensor) if on_host(tensor) else FEW
            is_count = math.isfinite(value) and value == round(value) and abs(value) > 1
            return 0.0 if is_count else UNKNOWN
        return UNKNOWN


def _is_written(value: float) -> bool:
    """Whether it is a decimal with few digits, in FP32 or FP64, as a program's text has them."""
    short = struct.unpack("f", struct.pack("f", float(f"{value:.6g}")))[0]
    return value in (short, float(f"{value:.9g}"))


def moved(value: torch.Tensor, ulp: float, signs: torch.Tensor | float) -> torch.Tensor:
    """`value`, in FP64, larger by the part `ulp * signs` of it: what rounds to the same. In FP16 so
    does another number that it has no 0 for.
    """
    made = value * (1 + ulp * signs)
    if ulp == torch.finfo(torch.float16).eps and bool((value != value.round()).any()):
        made = torch.where(value == 0, _LEAST_OF_HALF * signs, made)
    return made


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
    bits = sample.contiguous().view(torch.int32)
    for mask, dtype in _GRIDS:
        if not bool((bits & mask != 0).any()):
            fine = (bits & _MANTISSA)[bits & _COARSE != 0]
            return torch.finfo(dtype).eps if len(fine.unique()) >= _LEAST_LOOKED_AT else 0.0
    return 0.0
