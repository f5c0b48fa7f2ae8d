"""Calls of torch.distributed: what goes in and what comes out, in the steps that ranks are compared
by; in every step, whether one brought NaN or Inf to a rank that had none.

The functions are wrapped while a run of several ranks lives. Sums that torch makes by itself
(DistributedDataParallel's, FSDP's) do not come here: their gradients are compared as such.
"""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.compiler import is_compiling

from .._core import nonfinite
from ..base.later import HOST
from ..base.notes import harmless
from ..operators.origins import NAN, NEGINF, POSINF
from ..operators.places import pass_through, users_line
from ..steps.context import RunContext
from ..steps.listeners import StepListener
from ..steps.reading import graph_task_id
from ..steps.step import OpenStep
from .comparison import RankComparison
from .figures import Figures, Pending, copy_of, figures_of, share_of
from .holders import ranges

# Its wrapper lies between the program's line and the operators of torch.distributed. What it looks
# at by operators of its own stands in figures.py.
pass_through(__file__)

MOST_CALLS = 256  # of a step
MOST_KEPT = 65_536  # elements of a sum that is kept for the next one
MOST_LOOKED_AT = 1 << 20  # bytes that are looked through in every step

_SUM = "sum"


@dataclass(slots=True)
class _Call:
    operation: str
    given: torch.Tensor
    reduction: str | None
    group: Any
    into: Any = None  # a tensor or a list of them, where it is not what the call returns


@dataclass(slots=True)
class _Sum:
    """What a call left in a tensor."""

    owner: weakref.ref[Any]
    value: torch.Tensor


class Collectives(StepListener):
    """Of one rank."""

    name = "the calls of torch.distributed"

    def __init__(self, run: RunContext, comparison: RankComparison) -> None:
        self._core = run.core
        self.state = run.state
        self.notes = run.notes
        self._record = run.record
        self._model = run.model
        self._comparison = comparison
        self._sequence = 0
        self._tensors: dict[int, tuple[int, bool, Any]] = {}  # address -> layer, gradient, owner
        self._sums: dict[int, _Sum] = {}
        self._undo: list[Callable[[], None]] = []
        self._inside = False

    def watch_begins(self) -> None:
        distributed = torch.distributed
        functional = getattr(distributed, "_functional_collectives", None)
        for owner in (distributed, distributed.distributed_c10d):
            for name, read in _CALLS.items():
                self._wrap(owner, name, read)
        for name, read in _FUNCTIONAL.items():
            self._wrap(functional, name, read)

    def _wrap(self, owner: Any, name: str, read: Callable[..., _Call]) -> None:
        original = getattr(owner, name, None)
        if original is None or hasattr(original, "__wrapped_by_mpnanny__"):
            return

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._inside or is_compiling() or not self.state.recording:
                return original(*args, **kwargs)
            self._inside = True
            try:
                before = self._begins(read, args, kwargs)
                result = original(*args, **kwargs)
                if before is not None:
                    self._ended(*before, result)
                return result
            finally:
                self._inside = False

        call.__wrapped_by_mpnanny__ = True  # type: ignore[attr-defined]
        setattr(owner, name, call)

        def undo() -> None:
            if getattr(owner, name, None) is call:
                setattr(owner, name, original)

        self._undo.append(undo)

    def step_begins(self, step: OpenStep) -> None:
        self._sequence = 0
        self._tensors.clear()

    def run_ends(self) -> None:
        while self._undo:
            self._undo.pop()()

    def forked(self) -> None:
        self.run_ends()

    # --- one call ---

    @harmless
    def _begins(
        self, read: Callable[..., _Call], args: Any, kwargs: Any
    ) -> tuple[_Call, Any, float | None] | None:
        if self.state.number < 0 or self._sequence >= MOST_CALLS:
            return None
        if self.state.open is not None and not self.state.thread.is_here():
            return None
        call = read(*args, **kwargs)
        if not isinstance(call.given, torch.Tensor):
            return None
        if not self._comparison.due:
            if not self._is_looked_at(call.given):
                return None
            return call, nonfinite(call.given), None
        return call, figures_of(call.given), self._kept(call)

    @staticmethod
    def _is_looked_at(tensor: torch.Tensor) -> bool:
        if type(tensor) is not torch.Tensor or not tensor.is_floating_point():
            return False
        size = tensor.numel() * tensor.element_size()
        return tensor.device.type in HOST and size <= MOST_LOOKED_AT

    @harmless
    def _ended(self, call: _Call, before: Any, kept: float | None, result: Any) -> None:
        made = _made(call, result)
        if not isinstance(before, Pending):
            bad = NAN | POSINF | NEGINF
            if before & bad or made is None or not nonfinite(made) & bad:
                return
            before = Pending((0, call.given.numel(), 0, math.nan, math.nan, math.nan))
        self._put(call, before, _of_all(made), kept)
        self._keep(call, made)

    def _put(
        self,
        call: _Call,
        before: Pending,
        after: Pending,
        kept: float | None,
    ) -> None:
        step = self.state.open  # None: after the update, which belongs to the step before
        number, sequence = self.state.number, self._sequence
        self._sequence += 1
        file, line = users_line()
        source = self._record.source(f"{file}:{line}") if file else None
        found = self._find(call.given)
        layer, gradient = (found[0], found[1]) if found else (None, False)
        ranks = ranges(torch.distributed.get_process_group_ranks(call.group))
        in_backward = graph_task_id() != -1
        before_loss = step is not None and not step.backwards
        phase = "backward" if in_backward else "forward" if before_loss else "optimizer"

        def put(figures: Figures | None) -> None:
            out = after.value()
            self._core.collective(
                number,
                sequence,
                call.operation,
                call.reduction,
                ranks,
                source,
                phase,
                layer,
                gradient,
                figures,
                out,
                _number(figures),
                _number(out),
                kept,
            )

        self._comparison.when_there(put, before)

    def _find(self, tensor: torch.Tensor) -> tuple[int, bool, Any] | None:
        """The parameter or buffer, or gradient of one, whose memory this is."""
        address = tensor.data_ptr()
        found = self._tensors.get(address)
        if found is None or not found[2](address):
            self._tensors = self._addresses()
            found = self._tensors.get(address)
        return found

    def _addresses(self) -> dict[int, tuple[int, bool, Any]]:
        found: dict[int, tuple[int, bool, Any]] = {}
        for layer, owner in self._comparison.tensors():
            local = getattr(owner, "_local_tensor", owner)
            if local.numel():
                found[local.data_ptr()] = layer, False, _still(owner, False)
            gradient = owner.grad if owner.is_leaf else None
            local = getattr(gradient, "_local_tensor", gradient)
            if local is not None and local.numel():
                found[local.data_ptr()] = layer, True, _still(owner, True)
        return found

    # --- what an earlier sum left ---

    def _kept(self, call: _Call) -> float | None:
        if call.reduction != _SUM:
            return None
        address = call.given.data_ptr()
        earlier = self._sums.get(address)
        if earlier is None:
            return None
        if earlier.owner() is None or earlier.value.shape != call.given.shape:
            del self._sums[address]
            return None
        return share_of(earlier.value, call.given)

    def _keep(self, call: _Call, made: Any) -> None:
        given = call.given
        if call.reduction != _SUM or made is not given or given.numel() > MOST_KEPT:
            return
        found = self._find(given)
        if given.device.type not in HOST or (found and found[1]):
            return  # gradients are made anew
        self._sums[given.data_ptr()] = _Sum(weakref.ref(given), copy_of(given))


def _still(owner: Any, gradient: bool) -> Callable[[int], bool]:
    ref = weakref.ref(owner)

    def still(address: int) -> bool:
        tensor = ref()
        tensor = tensor.grad if gradient and tensor is not None else tensor
        local = getattr(tensor, "_local_tensor", tensor)
        return local is not None and local.data_ptr() == address

    return still


def _number(figures: Figures | None) -> float | None:
    """Of a tensor of one element, up to its sign by the sketch's."""
    if figures is None or figures[1] != 1 or figures[2]:
        return None
    return figures[4] * _SIGN


def _made(call: _Call, result: Any) -> Any:
    """What the call gave; None where it is not there yet."""
    if isinstance(result, torch.Tensor):
        wait = getattr(result, "trigger_wait", None)
        return wait() if wait is not None else result
    return call.into if result is None else None


def _of_all(made: Any) -> Pending:
    """Of a list as of one tensor, without a hash and a sketch."""
    if not isinstance(made, (list, tuple)):
        return figures_of(made)
    values = [each for each in (figures_of(one).value() for one in made) if each is not None]
    count, bad = sum(each[1] for each in values), sum(each[2] for each in values)
    return Pending((0, count, bad, math.fsum(each[3] for each in values), math.nan, math.nan))


def _name_of(reduction: Any) -> str | None:
    return str(reduction).rpartition(".")[2].lower() if reduction is not None else None


def _all_reduce(tensor: Any, op: Any = None, group: Any = None, async_op: bool = False) -> _Call:
    return _Call("all_reduce", tensor, _name_of(op) or _SUM, group, tensor)


def _all_gather(tensor_list: Any, tensor: Any, group: Any = None, async_op: bool = False) -> _Call:
    return _Call("all_gather", tensor, None, group, tensor_list)


def _all_gather_into_tensor(
    output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False
) -> _Call:
    return _Call("all_gather", input_tensor, None, group, output_tensor)


def _broadcast(tensor: Any, *_args: Any, group: Any = None, **_kwargs: Any) -> _Call:
    return _Call("broadcast", tensor, None, group, tensor)


def _functional_all_reduce(self: Any, reduceOp: str, group: Any, tag: str = "") -> _Call:
    return _Call("all_reduce", self, _name_of(reduceOp), _group_of(group))


def _functional_all_gather(self: Any, gather_dim: int, group: Any, tag: str = "") -> _Call:
    return _Call("all_gather", self, None, _group_of(group))


def _group_of(group: Any) -> Any:
    """The process group of what functional collectives take for one; None: the whole world."""
    if isinstance(group, torch.distributed.ProcessGroup):
        return group
    if isinstance(group, str):
        return torch.distributed.distributed_c10d._resolve_process_group(group)
    if isinstance(group, tuple):  # a mesh and a dimension of it
        return group[0].get_group(group[1])
    return group.get_group() if hasattr(group, "get_group") else None


_CALLS: dict[str, Callable[..., _Call]] = {
    "all_reduce": _all_reduce,
    "all_gather": _all_gather,
    "all_gather_into_tensor": _all_gather_into_tensor,
    "broadcast": _broadcast,
}
_FUNCTIONAL: dict[str, Callable[..., _Call]] = {
    "all_reduce": _functional_all_reduce,
    "all_gather_tensor": _functional_all_gather,
    "all_gather_single": _functional_all_gather,
}

# The sketch's sign of a tensor's first element.
_SIGN = figures_of(torch.ones(1)).value()[4]  # type: ignore[index]
