"""Averages of the weights that are written and stand still while the weights move away, and
counters in 16 bits that have stopped counting. In 16 bits each change is less than half a step of
the format; in FP32 nothing is added, as by a decay that was rounded to 1, or what is added is other
weights than those that are trained.

Looked for at a few steps, with growing distances: all living tensors of the shapes of the network's
parameters that lie near one, by a few numbers of each. A look that goes through the process is
rare, for it takes time; those between read what it found again. It counts where they were written
since then, most of the numbers that are far from the network's are what they were, and no wider
tensor holds the same values. Then the operators after the optimizer's step are heard until one
writes such a tensor: that is the line, and whether any of them has read the network's weights.
"""

from __future__ import annotations

import math
import time
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import get_ident
from typing import Any

import torch
from torch import nn

from ..fp64.call import tensors_of
from ..fp64.findings import EXCLUDED, NOT_TESTED, PROVEN, STANDS_STILL
from ..fp64.places import Site
from ..model.samples import is_readable, may_read, row
from ..model.selection import Watched
from ..model.watched import WatchedModel
from ..operators.as_called import run_as_called
from ..operators.modes import ModeStack, StepMode, is_own_work, others_on
from ..operators.places import find_place, pass_through
from ..steps.listeners import StepListener
from ..steps.step import OpenStep
from .living import LEAST, MOST_TENSORS, STEP_OF, WRITES, walk
from .watcher import Found, fault

FIRST_LOOK = 16  # steps; each later one at twice as many
LAST_LOOK = 1 << 17
PAUSE = 0.5  # seconds before the first look, and between two
SHARE = 50  # times what a look has taken go by before the next one of its kind
NUMBERS = 64  # of a tensor that are read
NEAR = 0.5  # of the norm: what follows the network
FAR = 4.0  # steps of the format
# The same in FP32, relative: what takes a hundred-thousandth of such a distance a step has moved.
FAR_IN_FP32 = 0.05
MOVED_IN_FP32 = 2.0**-21
MANY = 0.5  # of the numbers are so far from the network's
STILL = 0.75  # of these are what they were
SAME = 0.9  # of the numbers: a wider tensor of which this is a copy
WAITS = 64  # steps for a line
# Where adding 1 changes nothing any more.
_STOPS = {torch.bfloat16: 256.0, torch.float16: 2048.0}

pass_through(__file__)


@dataclass(slots=True)
class _Seen:
    """A tensor at a look; of a counter no parameter."""

    tensor: weakref.ref[torch.Tensor]
    version: int
    numbers: torch.Tensor  # float32, on the CPU
    dtype: torch.dtype
    shape: torch.Size
    parameter: int  # which it is near to
    followed: torch.Tensor  # numbers of that


class _Writes(StepMode):
    """Hears which line writes one of `shapes` in `dtype`, into `memory` or as a new tensor; and
    whether the `network`'s memory is read until then, or by what goes on writing there.
    """

    def __init__(
        self, dtype: torch.dtype, shape: torch.Size, memory: set[int], network: set[int]
    ) -> None:
        super().__init__()
        self._dtype, self._shape, self._memory = dtype, shape, memory
        self._network = network
        self.place = ""
        self.follows = False
        self._reads = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = run_as_called(func, args, {} if kwargs is None else kwargs)
        if self.looking and not is_own_work():
            try:
                self._hear(func, args, result)
            except Exception:
                self.looking = False  # the finding goes without its line
                self.follows = True
        return result

    def _hear(self, func: Any, args: tuple[Any, ...], result: Any) -> None:
        if not self._reads:
            read = (each.untyped_storage().data_ptr() for each in tensors_of(args))
            self._reads = any(each in self._network for each in read)
            self._reads = self._reads and find_place(str(func), {}) is not None  # not our own
        in_place = func._schema.is_mutable
        written = args[0] if in_place and args else result
        several = written if isinstance(written, (tuple, list)) else (written,)
        if any(self._is_meant(each, in_place) for each in several):
            self.follows = self._reads
            place = None if self.place else find_place(str(func), {})
            if place is not None:
                self.place = place.source

    def _is_meant(self, tensor: Any, in_place: bool) -> bool:
        if not isinstance(tensor, torch.Tensor) or tensor.dtype is not self._dtype:
            return False
        if in_place and self._memory:
            return tensor.untyped_storage().data_ptr() in self._memory
        return not self._memory and tensor.shape == self._shape


class _Rows:
    """A few numbers of each of the wider tensors, of each shape read once a look."""

    def __init__(self, wide: list[torch.Tensor]) -> None:
        self._wide = wide
        self._rows: dict[torch.Size, torch.Tensor] = {}

    def has(self, seen: _Seen) -> bool:
        """Whether one of them holds the values that `seen` does."""
        if seen.shape not in self._rows:
            rows = [row(each, NUMBERS).cpu() for each in self._wide if each.shape == seen.shape]
            self._rows[seen.shape] = torch.stack(rows or [torch.full_like(seen.numbers, math.nan)])
        rounded = self._rows[seen.shape].to(seen.dtype).float()
        return float((rounded == seen.numbers).float().mean(1).max()) >= SAME


class StandingAverages(StepListener):
    """`found(step, findings)` takes what there is to say. `home_of(tensor)`: where one of 16 bits
    was allocated, if that is known.
    """

    name = "averages that stand still"

    def __init__(
        self,
        model: WatchedModel,
        found: Found,
        stack: ModeStack,
        home_of: Callable[[torch.Tensor], Site | None],
    ) -> None:
        self._model = model
        self._found = found
        self._stack = stack
        self._home_of = home_of
        self._steps = 0
        self._next = FIRST_LOOK
        self._due = self._walk_due = time.perf_counter() + PAUSE  # before that there is no look
        self._seen: list[_Seen] = []  # by the last walk
        self._wide: list[weakref.ref[torch.Tensor]] = []
        self._pending: tuple[_Seen, dict[str, Any]] | None = None  # what is to be said
        self._mode: _Writes | None = None
        self._thread = 0
        self._waited = 0
        self._follows = True  # the network's weights are read where it is written

    # --- what happens ---

    def optimizer_ended(self, step: OpenStep, optimizer: Any, held: Watched) -> None:
        self._steps += 1
        due = self._pending is None and self._steps >= self._next <= LAST_LOOK
        if due and not others_on() and may_read():
            begun = time.perf_counter()
            walks = begun >= self._walk_due
            if walks or (self._seen and begun >= self._due):
                self._next = 2 * self._steps
                with torch.no_grad():
                    self._look(walks)
                ended = time.perf_counter()
                rest = max(PAUSE, SHARE * (ended - begun))
                self._due = ended + (PAUSE if walks else rest)
                if walks:
                    self._walk_due = ended + rest
        if self._pending is not None and self._mode is None:
            self._listen()

    def model_runs(self, model: nn.Module, args: Any, kwargs: Any) -> None:
        self._heard()

    def model_evaluates(self) -> None:
        self._heard()

    def backward_begins(self, step: OpenStep, losses: Any) -> None:
        self._heard()

    def step_begins(self, step: OpenStep) -> None:
        self._heard(step.number)

    def run_ends(self) -> None:
        self._leave()
        if self._pending is not None:
            self._say("", -1)

    def forked(self) -> None:
        self._leave()

    # --- which line writes it ---

    def _listen(self) -> None:
        assert self._pending is not None
        seen, _ = self._pending
        tensor = seen.tensor()
        memory = set() if tensor is None else {tensor.untyped_storage().data_ptr()}
        weights = self._model.module.parameters()
        network = {each.untyped_storage().data_ptr() for each in weights if is_readable(each)}
        mode = _Writes(seen.dtype, seen.shape, memory, network)
        if self._stack.push(mode):
            self._mode, self._thread = mode, get_ident()

    def _leave(self) -> str:
        mode, self._mode = self._mode, None
        if mode is None:
            return ""
        mode.looking = False
        self._stack.leave(mode, self._thread)
        self._follows = mode.follows
        return mode.place

    def _heard(self, number: int = -1) -> None:
        place = self._leave()
        if self._pending is None:
            return
        if number >= 0:
            self._waited += 1
        if place or self._waited > WAITS:
            self._say(place, number)

    # --- what it means ---

    def _look(self, walks: bool) -> None:
        before = self._seen
        if walks:
            living = walk(self._model.module)
            tensors = [*living.narrow, *living.written]
            self._wide = [weakref.ref(each) for each in living.wide]
            self._seen = []
        else:
            held = (each.tensor() for each in before)
            tensors = [each for each in held if each is not None and is_readable(each)]
        if not tensors:
            return
        known_by = {id(each.tensor()): each for each in before}
        wide = [each for each in (one() for one in self._wide) if each is not None]
        weights = list(self._model.module.parameters())
        by_shape: dict[torch.Size, list[tuple[int, torch.Tensor]]] = {}
        for at, each in enumerate(weights):
            enough = each.numel() >= LEAST and is_readable(each)
            if enough and len(by_shape) < MOST_TENSORS:
                by_shape.setdefault(each.shape, []).append((at, row(each, NUMBERS).cpu()))
        rows_of = _Rows(wide)
        still: list[_Seen] = []
        looked: Counter[torch.dtype] = Counter()
        for tensor in tensors:
            known = known_by.get(id(tensor))
            now = _see(tensor, by_shape, known)
            if now is None:
                continue
            if walks:
                self._seen.append(now)
            then = known if known is not None else _replaced(before, now)
            if then is None or (known is not None and now.version - known.version < WRITES):
                continue
            if tensor.numel() == 1:
                if _has_stopped(then, now):
                    self._suspect(now, "A counter", 1, now.version - then.version)
                    return
                continue
            looked[now.dtype] += 1
            if _stands_still(then, now) and not (now.dtype in STEP_OF and rows_of.has(now)):
                still.append(now)
        for dtype, alike in Counter(each.dtype for each in still).items():
            if 2 * alike >= looked[dtype]:
                of_it = (each for each in still if each.dtype is dtype)
                most = max(of_it, key=lambda each: each.shape.numel())
                self._suspect(most, "An average of the weights", alike, 0)
                return

    def _suspect(self, seen: _Seen, what: str, tensors: int, writes: int) -> None:
        names = [name for name, _ in self._model.module.named_parameters()]
        name = names[seen.parameter] if 0 <= seen.parameter < len(names) else ""
        detail: dict[str, Any] = {"what": what, "tensors": tensors}
        if name:
            detail["parameters"] = [name]
        if writes:
            detail["count"] = writes
        tensor = seen.tensor()
        home = None if tensor is None else self._home_of(tensor)
        if home is not None and home.source:
            detail["home"] = home.source
            if home.called_from:
                detail["called_from"] = home.called_from
        self._pending = seen, detail

    def _say(self, place: str, number: int) -> None:
        assert self._pending is not None
        (seen, detail), self._pending = self._pending, None
        self._next = LAST_LOOK + 1  # once a run
        file, _, line = place.rpartition(":")
        finding = fault(
            STANDS_STILL,
            Site("", "", "state", file, int(line or 0), None),
            "WARNING",
            1.0,
            **detail,
        )
        finding.dtype = str(seen.dtype)[6:]
        finding.precision = PROVEN
        if seen.dtype not in STEP_OF:
            finding.precision = NOT_TESTED if self._follows or not place else EXCLUDED
        finding.reach["state", detail["what"]] = 1.0
        self._found(max(number, 0) or self._steps, [finding])


def _see(
    tensor: torch.Tensor,
    by_shape: dict[torch.Size, list[tuple[int, torch.Tensor]]],
    known: _Seen | None,
) -> _Seen | None:
    """None for what follows none of the parameters. What did once may have been left far behind."""
    numbers = row(tensor, NUMBERS).cpu().clone()
    nearest, distance, followed = -1, NEAR, numbers
    if tensor.numel() > 1:
        for at, weights in by_shape.get(tensor.shape, ()):
            if known is not None:
                if at == known.parameter:
                    nearest, followed = at, weights
                continue
            size = float(weights.norm())
            off = float((numbers - weights).norm()) / size if size else NEAR
            if off < distance:
                nearest, distance, followed = at, off, weights
        if nearest < 0:
            return None
    return _Seen(
        weakref.ref(tensor),
        tensor._version,
        numbers,
        tensor.dtype,
        tensor.shape,
        nearest,
        followed.clone(),
    )


def _replaced(before: Sequence[_Seen], now: _Seen) -> _Seen | None:
    """The tensor in whose place this one is: that is gone, and followed the same parameter."""
    if now.shape.numel() == 1 or now.dtype not in STEP_OF:
        return None
    for each in before:
        alike = each.shape == now.shape and each.dtype is now.dtype
        if alike and each.parameter == now.parameter and each.tensor() is None:
            return each
    return None


def _has_stopped(then: _Seen, now: _Seen) -> bool:
    value = float(now.numbers[0])
    return value == float(then.numbers[0]) == _STOPS[now.dtype]


def _stands_still(then: _Seen, now: _Seen) -> bool:
    """Whether most of what is far from the network, which has moved, is what it was."""
    size = now.numbers.abs()
    step = MOVED_IN_FP32 * size if now.dtype not in STEP_OF else 2 * STEP_OF[now.dtype] * size
    least = FAR_IN_FP32 * size if now.dtype not in STEP_OF else FAR * step
    far = ((now.followed - now.numbers).abs() > least) & (step > 0)
    moved = (now.followed - then.followed).abs() > step
    if float(far.float().mean()) < MANY or float(moved.float().mean()) < MANY:
        return False
    same = now.numbers == then.numbers
    if now.dtype not in STEP_OF:
        same = (now.numbers - then.numbers).abs() <= step
    return float((same & far).sum()) >= STILL * float(far.sum())
