"""The dispatch mode of a shadow step: runs every operator a second time in FP64 on its operands' own
FP64 history, and compares.

The mode calls each operator with exactly what came and returns exactly what that returned. It
belongs to one step and to the thread that pushed it (and, as torch hands modes on, to the threads
of the backward pass). What a finding is worth is decided in verdict.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ..operators.modes import StepMode
from ..operators.places import pass_through
from .changes import Changes
from .comparison import Comparison, compare, compare_change
from .cure import exclude, find_cure
from .findings import (
    AMPLIFIED,
    CLIPPED,
    FLUSHED,
    INTEGERS,
    RANGE,
    UNDEFINED,
    Finding,
    Findings,
)
from .history import Held, History, Layout, Node, is_float
from .operators import COMPLEX, PLAIN, SKIP, VIEW, Operator, holds_nonfinite_number, operator_of
from .places import Places, Site
from .references import Entry, References, wide

# A result this far from its reference (relative, L2) is wrong, one that makes this many times the
# error of its inputs has made it. Healthy BF16 networks stay below 0.1 for a long way: one BF16
# rounding is 0.002, a BF16 matrix product 0.004.
WRONG = 0.2
AMPLIFICATION = 5.0
# Less than wrong and yet made here: a note.
NOTED = 0.04
NOTED_AMPLIFICATION = 8.0
CARRIES = 0.02  # errors below this are no longer followed
FLUSHED_SHARE = 0.3  # of the elements that matter
MATTERS = 1e-2  # of the root mean square, that an element must have to matter
WRONG_INTEGERS = 0.01
CLIPPED_SHARE = 1e-3
CLIPPED_ERROR = 0.1


@dataclass(slots=True)
class _Input:
    held: torch.Tensor  # with the values before the operator
    reference: torch.Tensor
    node: Node | None
    error: float
    origin: Finding | None
    noise: bool
    position: int | None  # in a list of tensors

    def compare(self) -> Comparison | None:
        return compare(self.held, self.reference)


@dataclass(slots=True)
class _Written:
    """An argument that the operator writes."""

    tensor: torch.Tensor
    reference: torch.Tensor  # changes with the operator
    entry: Entry
    before: torch.Tensor | None
    was: torch.Tensor | None
    position: int | None  # in a list of tensors


pass_through(__file__)

_NONE: Any = object()  # the reference of an operator that could not be run on references


class _Call:
    """One operator between its start and its end."""

    __slots__ = (
        "args",
        "function",
        "inputs",
        "kwargs",
        "memories",
        "node",
        "operator",
        "position",
        "reference_args",
        "reference_kwargs",
        "site",
        "written",
    )

    def __init__(self, operator: Operator, function: Any, site: Site, number: int) -> None:
        self.operator = operator
        self.function = function
        self.site = site
        self.node = Node(operator, function, site, number)
        self.inputs: list[_Input] = []
        self.written: list[_Written] = []
        self.memories: set[int] = set()
        self.position: int | None = None  # in the lists of the call, of the result in question

    def sources(self) -> list[_Input]:
        """What the result in question is made of: of lists the tensors at its position."""
        if self.position is None:
            return self.inputs
        return [each for each in self.inputs if each.position in (None, self.position)]


def floats(value: Any, depth: int = 0) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        if is_float(value):
            yield value
    elif depth < 4:
        if isinstance(value, (tuple, list)):
            for each in value:
                yield from floats(each, depth + 1)
        elif isinstance(value, dict):
            for each in value.values():
                yield from floats(each, depth + 1)


class ShadowMode(StepMode):
    """Pushed for one step. `places` knows where an operator belongs, `trouble` is told of what goes
    wrong in here, `changes` of what in-place operators did to what outlives the step.
    """

    supports_higher_order_operators = True

    def __init__(
        self,
        places: Places,
        changes: Changes,
        trouble: Callable[[Exception], None],
        most_bytes: int,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.references = References()
        self.findings = Findings()
        self.places = places
        self.changes = changes
        self.history = History()
        self.seconds = 0.0  # that the shadow took beside the operators themselves
        self.operators = 0
        self.compared = 0
        self.restarts: Counter[str] = Counter()
        self.magnitudes: dict[Any, float] = {}  # of each place's results, largest of the reference
        self.errors: dict[int, float] = {}  # of what each operator made, by its number
        self.looking = True
        self.read: Callable[[torch.Tensor, Entry], None] = lambda tensor, entry: None
        self._trouble = trouble
        self._most_bytes = most_bytes
        self._number = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if kwargs is None:
            kwargs = {}
        if not self.looking or types:
            return func(*args, **kwargs)
        began = time.perf_counter()
        call = None
        try:
            call = self._before(func, args, kwargs)
        except Exception as error:
            self._stop(error)
        self.seconds += time.perf_counter() - began
        result = func(*args, **kwargs)
        if call is not None:
            began = time.perf_counter()
            try:
                self._after(call, args, kwargs, result)
            except Exception as error:
                self._stop(error)
            self.seconds += time.perf_counter() - began
        return result

    def _stop(self, error: Exception) -> None:
        self.looking = False
        self.references.clear()
        self.history.clear()
        self._trouble(error)

    # --- before the operator ---

    def _before(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call | None:
        operator = operator_of(func)
        if operator.kind is SKIP:
            if operator.name == "aten._local_scalar_dense":
                self._scalar(args)
            return None
        site = self.places.find(operator.name, keep=True)
        if site is None or operator.kind is VIEW:
            return None
        if operator.name == "aten._local_scalar_dense":
            self._scalar(args)
            return None
        self._number += 1
        self.operators += 1
        if self.references.bytes > self._most_bytes:
            self.references.sweep()
            if self.references.bytes > self._most_bytes:
                self.references.clear()  # starts again from what is held
                self.restarts["memory"] += 1
        call = _Call(operator, func, site, self._number)
        for at in operator.written:
            if at < len(args):
                self._before_write(call, args[at])
        for name in operator.written_names:
            if name in kwargs:
                self._before_write(call, kwargs[name])
        writes = {id(each.tensor) for each in call.written}
        call.reference_args = self._reference(call, args, writes, 0)
        call.reference_kwargs = self._reference(call, kwargs, writes, 0)
        if not operator.is_list:
            call.node.args = self._kept(call, args, writes)
            call.node.kwargs = self._kept(call, kwargs, writes)
        return call

    def _before_write(self, call: _Call, value: Any) -> None:
        operator = call.operator
        is_list = isinstance(value, (tuple, list))
        for position, tensor in enumerate(floats(value)):
            entry = self.references.entry(tensor)
            existed = entry is not None
            reference = self.references.writable(tensor, operator.overwrites)
            entry = self.references.entry(tensor)
            if entry is None:
                continue
            if not existed:
                entry.new = False
            before = was = None
            if operator.change:
                before, was = tensor.detach().clone(), reference.clone()
            call.written.append(
                _Written(tensor, reference, entry, before, was, position if is_list else None)
            )

    def _reference(
        self,
        call: _Call,
        value: Any,
        writes: set[int],
        depth: int,
        position: int | None = None,
    ) -> Any:
        if isinstance(value, torch.Tensor):
            if not is_float(value):
                return value
            entry = self.references.start(value)
            reference = self.references.of(value)
            assert reference is not None
            call.memories.add(value.untyped_storage()._cdata)
            if id(value) in writes:
                written = next(each for each in call.written if each.tensor is value)
                if not call.operator.overwrites and written.before is not None:
                    assert written.was is not None
                    call.inputs.append(
                        _Input(
                            written.before,
                            written.was,
                            entry.node,
                            entry.error,
                            entry.origin,
                            entry.noise,
                            position,
                        )
                    )
                return written.reference
            call.inputs.append(
                _Input(
                    value, reference, entry.node, entry.error, entry.origin, entry.noise, position
                )
            )
            return reference
        if isinstance(value, torch.dtype):
            return wide(value) if value.is_floating_point or value in COMPLEX else value
        if depth < 4:
            if isinstance(value, (tuple, list)):
                return type(value)(
                    self._reference(call, each, writes, depth + 1, at if depth else None)
                    for at, each in enumerate(value)
                )
            if isinstance(value, dict):
                return {k: self._reference(call, v, writes, depth + 1) for k, v in value.items()}
        return value

    def _kept(self, call: _Call, value: Any, writes: set[int]) -> Any:
        if isinstance(value, torch.Tensor):
            if not is_float(value):
                return value
            entry = self.references.entry(value)
            alias = value.detach()
            if id(value) in writes:
                written = next(each for each in call.written if each.tensor is value)
                alias = written.before if written.before is not None else alias.clone()
            call.node.bytes += alias.numel() * alias.element_size()
            return Held(
                alias,
                alias._version,
                entry.node if entry is not None else None,
                value.untyped_storage()._cdata,
            )
        if isinstance(value, (tuple, list)):
            return type(value)([self._kept(call, each, writes) for each in value])
        if isinstance(value, dict):
            return {key: self._kept(call, each, writes) for key, each in value.items()}
        return value

    def _scalar(self, args: tuple[Any, ...]) -> None:
        """A number that the program reads."""
        tensor = args[0] if args else None
        if is_float(tensor):
            entry = self.references.entry(tensor)
            if entry is not None:
                self.read(tensor, entry)

    # --- after the operator ---

    def _after(self, call: _Call, args: tuple[Any, ...], kwargs: Any, result: Any) -> None:
        if call.operator.schema_name in ("aten::nan_to_num", "aten::nan_to_num_"):
            self._replaced(call)
        made = self._reference_result(call, args, kwargs, result)
        if made is _NONE:
            for written in call.written:
                self.references.restart(written.tensor)
            return
        if call.written:
            for index, written in enumerate(call.written):
                call.position = written.position
                self._wrote(call, index, written)
            call.position = None
        outputs = list(_tensors(result))
        references = list(_tensors(made))
        for index, (held, reference) in enumerate(zip(outputs, references, strict=False)):
            if not is_float(held):
                self._made_integers(call, held, reference)
                continue
            memory = held.untyped_storage()._cdata
            if memory in call.memories or held.shape != reference.shape:
                continue  # the argument itself, or a view of it
            if not reference.is_floating_point() and reference.dtype not in COMPLEX:
                continue
            entry = self.references.set(held, reference)
            call.memories.add(memory)
            call.position = index if call.operator.is_list else None
            self._judge(call, index, held, reference, entry)
        if call.node.outputs and call.node.args is not None:
            self.history.add(call.node)

    def _replaced(self, call: _Call) -> None:
        """The program puts numbers in the place of what is not finite: it got out that way."""
        for each in call.inputs:
            if each.origin is not None and each.origin.kind in (RANGE, UNDEFINED):
                each.origin.reached("replaced", call.site.source, each.origin.share)

    def _reference_result(self, call: _Call, args: Any, kwargs: Any, result: Any) -> Any:
        """What the operator makes of the references; _NONE where that is not to be had."""
        operator = call.operator
        if operator.kind is not PLAIN and operator.draws(args, kwargs):
            if operator.name == "aten.native_dropout" and args[2] is not False:
                kept = result[1].to(torch.float64)
                scale = 0.0 if args[1] >= 1 else 1.0 / (1.0 - args[1])
                return (call.reference_args[0] * kept * scale, result[1])
            if call.inputs and not operator.written:
                self.restarts[operator.name] += 1
            return _NONE
        if not call.inputs and not call.written and not any(True for _ in floats(result)):
            return _NONE
        reference_args = call.reference_args
        name = operator.schema_name
        if name in ("aten::_softmax", "aten::_log_softmax"):
            reference_args = (*reference_args[:2], False)
        elif operator.clamps_to_format(args, kwargs) or name.startswith("aten::fake_quantize"):
            if not operator.written:
                return call.reference_args[0].clone()
        elif name == "aten::_amp_foreach_non_finite_check_and_unscale_":
            inverse = reference_args[2]
            for gradient in reference_args[0]:
                gradient.mul_(inverse)
            return reference_args[0]
        try:
            return call.function(*reference_args, **call.reference_kwargs)
        except Exception:
            self.restarts[operator.name] += 1
            return _NONE

    def _wrote(self, call: _Call, index: int, written: _Written) -> None:
        entry = written.entry
        self._judge(call, index, written.tensor, written.reference, entry)
        if entry.origin is not None and math.isinf(entry.error) and not entry.new:
            entry.origin.reached("state", self.changes.name(written.tensor), math.inf)
        if written.before is None or written.was is None:
            return
        if entry.new or entry.noise:
            return
        change = compare_change(written.before, written.tensor, written.was, written.reference)
        if change is not None and change.moved:
            self.changes.see(call.site, index, written.tensor, written.reference, entry, change)

    def _made_integers(self, call: _Call, held: torch.Tensor, reference: torch.Tensor) -> None:
        """Numbers became indices or counts: are they those that the reference makes?"""
        if call.operator.name != "aten._to_copy" or held.dtype is torch.bool or not call.inputs:
            return
        origin = call.inputs[0].origin
        if origin is None or held.shape != reference.shape:
            return
        wrong = (held != reference).sum().item() / max(1, held.numel())
        if wrong >= WRONG_INTEGERS:
            origin.reached("index", call.site.source, wrong)

    # --- what the comparison says ---

    def _judge(
        self, call: _Call, index: int, held: torch.Tensor, reference: torch.Tensor, entry: Entry
    ) -> None:
        storage = held.untyped_storage()._cdata
        call.node.outputs.append(
            Layout(storage, tuple(held.shape), tuple(held.stride()), held.storage_offset())
        )
        entry.node = call.node
        if not held.numel():
            return
        found = compare(held, reference)
        if found is None:
            return
        self.compared += 1
        error = found.error
        key = call.site.key
        if found.max_reference > self.magnitudes.get(key, 0.0):
            self.magnitudes[key] = found.max_reference
        call.node.error = error if not found.range else math.inf
        self.errors[call.node.number] = max(call.node.error, self.errors.get(call.node.number, 0.0))
        if found.reference_only:
            self.references.restart(held)
            entry.error, entry.origin = 0.0, None
            return
        carried = max(
            (each for each in call.sources() if each.origin is not None),
            key=lambda each: each.error,
            default=None,
        )
        origin = carried.origin if carried is not None else None
        noise = any(each.noise for each in call.sources())
        made: Finding | None = None
        if found.bad:
            made = self._nonfinite(call, index, held, reference, found, origin)
            entry.error, entry.noise = math.inf, False
            entry.origin = made or origin
            return
        entry.error = error
        entry.noise = error > CARRIES and (noise or found.is_noise(held.dtype))
        entry.origin = origin if error > CARRIES and not entry.noise else None
        if entry.noise:
            return
        if found.integers and found.wrong_integers:
            entry.origin = (
                self._integers(call, index, held, reference, found, origin, error) or entry.origin
            )
        if found.clipped > CLIPPED_SHARE * found.numel and error > CLIPPED_ERROR:
            share = found.clipped / found.numel
            entry.origin = self._add(call, CLIPPED, held, found, share, 0.0, origin)
            self._cure(entry.origin, call, index, reference, held.dtype)
            return
        if error > NOTED:
            made = self._wrong(call, index, held, reference, found, origin)
        elif found.flushed > FLUSHED_SHARE * max(1, found.nonzero):
            made = self._flushed(call, index, held, reference, found, origin)
        if made is not None:
            entry.origin = made

    def _inputs_worst(self, call: _Call) -> tuple[float, int]:
        """The largest relative error of an input, and how bad inputs are: 0 finite, 1 infinite, 2
        NaN, 3 not finite here only. Measured on exactly the elements that went in.
        """
        error, rank = 0.0, 0
        for each in call.sources():
            found = each.compare()
            if found is None:
                continue
            if not found.is_noise(each.held.dtype):
                error = max(error, found.error)
            rank = max(rank, 3 if found.range else 2 if found.undefined else bool(found.infinite))
        return error, rank

    def _nonfinite(
        self,
        call: _Call,
        index: int,
        held: torch.Tensor,
        reference: torch.Tensor,
        found: Comparison,
        origin: Finding | None,
    ) -> Finding | None:
        error, rank = self._inputs_worst(call)
        if found.range:
            if rank >= 2:
                return None
            made = self._add(
                call, RANGE, held, found, found.range / found.numel, error, origin, math.inf
            )
            self._cure(made, call, index, reference, held.dtype)
            return made
        if rank >= (2 if found.undefined else 1):
            return None if origin is not None else self._from_outside(call, held, found, rank)
        args = (call.node.args, call.node.kwargs)
        if rank == 0 and not found.undefined and holds_nonfinite_number(args):
            return None  # a mask is filled in
        share = (found.undefined + found.infinite) / found.numel
        made = self._add(call, UNDEFINED, held, found, share, error, origin, math.inf)
        exclude(made)
        return made

    def _from_outside(
        self, call: _Call, held: torch.Tensor, found: Comparison, rank: int
    ) -> Finding | None:
        """What is not finite was there before the step began: a batch, weights."""
        for each in call.sources():
            if each.node is not None:
                continue
            own = each.compare()
            if own is None or not (own.undefined or (own.infinite and bool((each.held > 0).any()))):
                continue
            made = self._add(call, UNDEFINED, held, own, own.bad / own.numel, 0.0, None, math.inf)
            made.detail["from"] = "a tensor that was not finite before the step"
            if not self.changes.name(each.held):  # of weights it is not known what broke them
                exclude(made)
            return made
        return None

    def _entered(self, call: _Call, error: float) -> float:
        """The error with which a loop over this line was entered: an accumulation makes its error in
        many small portions.
        """
        for each in call.sources():
            node = each.node
            if node is not None and node.site.key == call.site.key:
                return min(error, node.entered)
        return error

    def _wrong(
        self,
        call: _Call,
        index: int,
        held: torch.Tensor,
        reference: torch.Tensor,
        found: Comparison,
        origin: Finding | None,
    ) -> Finding | None:
        error = found.error
        error_in, rank = self._inputs_worst(call)
        call.node.entered = entered = self._entered(call, error_in)
        times = AMPLIFICATION if error > WRONG else NOTED_AMPLIFICATION
        if rank == 3 or error < times * entered:
            return None
        flushed = found.squared_flushed > 0.5 * found.squared_error
        kind = FLUSHED if flushed else AMPLIFIED
        share = found.flushed / max(1, found.nonzero) if flushed else 1.0
        made = self._add(call, kind, held, found, share, entered, origin)
        self._cure(made, call, index, reference, held.dtype)
        return made

    def _flushed(
        self,
        call: _Call,
        index: int,
        held: torch.Tensor,
        reference: torch.Tensor,
        found: Comparison,
        origin: Finding | None,
    ) -> Finding | None:
        """Many elements, and little of the whole: they count if they are not tiny beside the rest."""
        floor = MATTERS * math.sqrt(found.squared_reference / found.numel)
        again = compare(held, reference, floor)
        if again is None or again.flushed < FLUSHED_SHARE * max(1, again.nonzero):
            return None
        for each in call.sources():
            before = each.compare()
            if before is not None and before.flushed >= 0.5 * again.flushed:
                return None  # they were 0 before
        made = self._add(
            call, FLUSHED, held, again, again.flushed / max(1, again.nonzero), 0.0, origin
        )
        self._cure(made, call, index, reference, held.dtype)
        return made

    def _integers(
        self,
        call: _Call,
        index: int,
        held: torch.Tensor,
        reference: torch.Tensor,
        found: Comparison,
        origin: Finding | None,
        error: float,
    ) -> Finding | None:
        if origin is not None and origin.kind == INTEGERS:
            return origin
        share = found.wrong_integers / found.numel
        if share < WRONG_INTEGERS or found.max_reference >= 2.0**53:
            return None
        for each in call.sources():
            before = each.compare()
            if before is None or not before.integers or before.wrong_integers:
                return None
        made = self._add(call, INTEGERS, held, found, share, 0.0, origin, error)
        self._cure(made, call, index, reference, held.dtype)
        return made

    def _add(
        self,
        call: _Call,
        kind: str,
        held: torch.Tensor,
        found: Comparison,
        share: float,
        error_in: float,
        origin: Finding | None,
        error_out: float | None = None,
    ) -> Finding:
        kinds = list(dict.fromkeys(str(each.held.dtype)[6:] for each in call.sources()))
        own = str(held.dtype)[6:]
        dtype = own if kinds in ([], [own]) else f"{', '.join(kinds[:3])} → {own}"
        return self.findings.add(
            Finding(
                kind=kind,
                site=call.site,
                number=call.node.number,
                dtype=dtype,
                shape=str(list(held.shape)),
                share=share,
                magnitude=found.max_reference,
                error_in=error_in,
                error_out=found.error if error_out is None else error_out,
                parents=() if origin is None else (origin,),
            )
        )

    def _cure(
        self,
        made: Finding,
        call: _Call,
        index: int,
        reference: torch.Tensor,
        held_dtype: torch.dtype,
    ) -> None:
        if made.count > 1 or made.cure is not None or call.node.args is None:
            return
        try:
            find_cure(made, call.node, index, reference, self.errors, held_dtype)
        except Exception as error:
            made.detail["cure"] = f"not tried: {type(error).__name__}"


def _tensors(value: Any, depth: int = 0) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif depth < 4 and isinstance(value, (tuple, list)):
        for each in value:
            yield from _tensors(each, depth + 1)
