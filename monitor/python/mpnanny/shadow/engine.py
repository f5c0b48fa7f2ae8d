"""The dispatch mode of a shadow step: runs every operator a second time in FP64 on its operands'
own FP64 history, and writes the tape of what the two make (tape).

The mode calls each operator with exactly what came and returns exactly what that returned. It
belongs to one step and to the thread that pushed it (and, as torch hands modes on, to the threads
of the backward pass).
"""

from __future__ import annotations

import contextlib
import math
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from ..fp64 import products
from ..fp64.call import Call, Written, counted_writes, floats, shared_memory, tensors_of
from ..fp64.constants import written_down
from ..fp64.dependencies import Dependencies
from ..fp64.history import History, is_float
from ..fp64.lasting import Lasting, Origin
from ..fp64.operands import Operands
from ..fp64.operators import COMPLEX, DECISIONS, PLAIN, SKIP, SOFTMAX, VIEW, operator_of
from ..fp64.places import Places, Site, in_backward
from ..fp64.references import NONE, Entry, References, is_whole, widened
from ..fp64.selection import SELECTIONS
from ..fp64.uncertainty import ROUNDED, Uncertainty
from ..model.shards import is_sharded
from ..operators.as_called import run_as_called
from ..operators.modes import StepMode, is_own_work, others_on, without_modes
from ..operators.places import pass_through
from . import lasting
from .changes import Changes
from .coverage import Coverage
from .decisions import Decisions
from .followed import Followed
from .replay import FAILED, Replay
from .scale_lane import ScaleLane
from .tape import Tape

pass_through(__file__)

MOST_CARRIED = 1 << 20  # elements of a state that is made anew

_NONE: Any = object()  # the reference of an operator that could not be run on references


class ShadowMode(StepMode):
    """Pushed for one step. `places` knows where an operator belongs, `trouble` gets what goes
    wrong in here, `changes` what in-place operators did to what outlives the step.
    """

    supports_higher_order_operators = True

    def __init__(
        self,
        places: Places,
        changes: Changes,
        trouble: Callable[[Exception], None],
        most_bytes: int,
        step: int = 0,
        first_loss: float | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.uncertainty = Uncertainty(lambda each: bool(changes.name(each)), changes.kept)
        self.references = References(self.uncertainty)
        self.history = History()
        self.tape = Tape(
            self.references,
            self.history,
            changes.name,
            changes.unwritten,
            changes.kept,
            changes.run,
            step,
            first_loss,
            changes.suspects,
        )
        self.places = places
        self.changes = changes
        self.dependencies = Dependencies(self.tape)
        self.seconds = 0.0  # of its threads, that the shadow took beside the operators themselves
        self.operators = 0
        self.restarts: Counter[str] = Counter()
        self.followed = Followed(self.tape, self.restarts)
        self.looking = True
        self._given_up = False
        self.lane: ScaleLane | None = None  # where a loss scale is used
        self.replay: Replay | None = None  # where operators run twice in their own type
        self.coverage = Coverage()
        self._decisions = Decisions(self.tape)
        self._fresh: set[int] = set()  # memory that was made in this step without values
        self._operands = Operands(
            self.references, changes.unwritten, self._fresh, self.tape.compare
        )
        self._lasting = changes.lasting
        self._trouble = trouble
        self._most_bytes = most_bytes
        self._most_seconds = math.inf
        self._number = 0
        self._step = step
        self._site: Site | None = None  # of the operator under way
        self._unfollowed = False  # it has no reference

    def limit(self, seconds: float = math.inf, elements: float = math.inf) -> None:
        """Ends by itself after so many `seconds` of its own, and leaves out operators on tensors
        of more than `elements`.
        """
        self._most_seconds, self.followed.most_elements = seconds, elements

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if kwargs is None:
            kwargs = {}
        if types and self.looking and all(map(is_sharded, types)) and not others_on():
            return NotImplemented  # torch goes on with this rank's parts, which come here again
        operator = operator_of(func)
        if operator.is_uncounted and operator.written:
            with counted_writes(operator, args):
                return self._run(func, types, args, kwargs)
        return self._run(func, types, args, kwargs)

    def _run(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._given_up:
            self._given_up = False
            self.end()
        if not self.looking or types or is_own_work() or others_on():
            return run_as_called(func, args, kwargs)
        began = time.thread_time()
        call = None
        try:
            if self.seconds > self._most_seconds:
                self.end()
                return run_as_called(func, args, kwargs)
            call = self._before(func, args, kwargs)
        except NotImplementedError:  # inside a transform of torch.func tensors have no memory
            self.restarts["torch.func"] += 1
        except Exception as error:
            self._stop(error)
        operator = operator_of(func)
        again = None
        if self.replay is not None and self.looking and self._site is not None:
            again = self._replays(lambda replay: replay.before(func, operator, args, kwargs))
        site = self._site
        self.seconds += time.thread_time() - began
        result = run_as_called(func, args, kwargs)
        if again is not None:
            began = time.thread_time()
            self._replays(lambda replay: replay.after(again, operator, site, result))
            self.seconds += time.thread_time() - began
        if self.looking and (
            call is not None or operator.allocates or not self.places.in_optimizer
        ):
            began = time.thread_time()
            try:
                if self._unfollowed:
                    self.uncertainty.loses(floats(result))
                if operator.allocates:
                    self._allocated(operator.name, result)
                if call is not None:
                    self._after(call, args, kwargs, result)
                    if self.lane is not None:
                        self.lane.after(call, result)
                    self.followed.count(call.site)
                if not self.places.in_optimizer:
                    backward, slot_of = in_backward(), partial(self._slot_of, call)
                    self.dependencies.saw(
                        operator, self._site, backward, args, kwargs, result, slot_of
                    )
                    if self._site is not None and not backward:
                        self.changes.births.saw(operator, (args, kwargs), result, self._site)
            except NotImplementedError:
                self.restarts["torch.func"] += 1
            except Exception as error:
                self._stop(error)
            self.seconds += time.thread_time() - began
        return result

    def _replays(self, work: Callable[[Replay], Any]) -> Any:
        """None where it cannot be done."""
        assert self.replay is not None
        try:
            return work(self.replay)
        except Exception:  # no memory, a kernel that refuses: the training goes on
            self.replay.left_out[FAILED] += 1
            return None

    def give_up(self) -> None:
        """end(), from another thread than the one that may be inside: what is held goes there."""
        self.looking = False
        self._given_up = True

    def end(self) -> None:
        """From now on it only passes on."""
        if self.looking:
            self.looking = False
            try:
                with without_modes():
                    self.keep()
            except Exception as error:
                self._trouble(error)
        self.references.clear()
        self.history.clear()

    def keep(self) -> None:
        """What was made for later steps keeps its reference."""
        found = lasting.made_to_last(self.references, self.tape, self.dependencies, self._lasting)
        with contextlib.suppress(NotImplementedError):  # inside a transform of torch.func
            self._lasting.keep(found)

    def _stop(self, error: Exception) -> None:
        self.looking = False
        self.end()
        self._trouble(error)

    # --- before the operator ---

    def _before(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
        operator = operator_of(func)
        self._site = None
        self._unfollowed = False
        if self.tape.waits:
            self.tape.before_write(floats(list(operator.written_values(args, kwargs))))
        if operator.kind is SKIP:
            if operator.receives:
                self._receive(args[:1])
            return None
        self._site = site = self.places.find(operator.name, keep=True)
        if site is None:
            return None
        if operator.kind is VIEW:
            if operator.schema_name == "aten::lift_fresh" and self.followed.history:
                self.uncertainty.writes_down(args[0])
                self._written_down(args[0], site)
            return None
        if operator.name == "aten._local_scalar_dense":
            self._scalar(args[0])
            return None
        if not self.followed.takes(operator, site, args, kwargs, self._most_bytes):
            self._unfollowed = True
            if self.lane is not None:
                self.lane.lost((args, kwargs))
            return None
        if self._lasting and self.followed.history:
            self._take_up((args, kwargs))
        self._number += 1
        self.operators += 1
        if not self.references.stay_below(self._most_bytes):
            self.restarts["memory"] += 1
        call = Call(operator, func, site, self._number)
        if operator.overwrites:
            call.shared = shared_memory((args, kwargs))
        for written in operator.written_values(args, kwargs):
            self._operands.before_write(call, written)
        self._decisions.chosen_by(call, args)
        writes = call.whole | {id(each.tensor) for each in call.written}
        call.reference_args = self._operands.reference(call, args, writes, 0)
        call.reference_kwargs = self._operands.reference(call, kwargs, writes, 0)
        if not operator.is_list:
            call.node.args = self._operands.kept(call, args, writes)
            call.node.kwargs = self._operands.kept(call, kwargs, writes)
        self.changes.reads(site, [each.tensor for each in call.operands])
        self.tape.begins(call, self.dependencies)
        if self.lane is not None:
            self.lane.before(call, args, kwargs)
        return call

    def _written_down(self, tensor: torch.Tensor, site: Site) -> None:
        """A constant, which torch has made without an operator."""
        value = written_down(tensor) if is_float(tensor) and is_whole(tensor) else None
        if value is not None:
            origin = Origin(site, str(tensor.dtype).removeprefix("torch."), None, False)
            entry = self._known(tensor, Lasting.made(tensor, value, origin))
            entry.new, entry.kept = True, False

    def _take_up(self, values: Any) -> None:
        """References that were made in earlier steps, of what is read here for the first time."""
        for tensor in floats(values):
            if self.references.entry(tensor) is None:
                known = self._lasting.of(tensor)
                if known is not None:
                    self._known(tensor, known)

    def _known(self, tensor: torch.Tensor, known: Lasting) -> Entry:
        self._number += 1
        call, held = known.call(tensor, self._number)
        entry = self.references.take_up(tensor, known.base)
        self.tape.taken_up(call, held, entry, known.origin.narrow or known.element)
        self.history.add(call.node)
        return entry

    def _slot_of(self, call: Call | None, tensor: torch.Tensor) -> int:
        """Where the comparison of a tensor is that `call` has read or made."""
        entry = self.references.entry(tensor)
        slot = NONE if entry is None else entry.slot_of(tensor)
        if slot == NONE and call is not None:
            read = (each.slot for each in call.operands if each.held is tensor and each.read)
            written = any(each.tensor is tensor for each in call.written)
            slot = NONE if written else next(read, NONE)
        return slot

    def _allocated(self, name: str, result: Any) -> None:
        site = None
        for tensor in floats(result):
            self._fresh.add(tensor.untyped_storage()._cdata)
            self.references.forget(tensor)
            site = site or self.places.find(name, keep=False)
            if site is not None:
                self.changes.unwritten.made(tensor, site)

    def _receive(self, written: tuple[Any, ...]) -> None:
        """What other processes add is not known in FP64: what will be held is the reference."""
        for tensor in tensors_of(written):
            self.changes.unwritten.writes(tensor, whole=True)
            self.references.forget(tensor)
            self.references.forget_sent(tensor)
            self.restarts["communication"] += 1
        if self.lane is not None:
            self.lane.lost((written, {}))

    def _scalar(self, tensor: torch.Tensor) -> None:
        """A number that the program reads."""
        if tensor.dtype is torch.bool:
            self._decisions.read(tensor, self.places.find("aten._local_scalar_dense", keep=False))
        elif is_float(tensor):
            entry = self.references.entry(tensor)
            if entry is not None and (self.tape.waits or self.tape.error(entry) > 0):
                site = self.places.find("aten._local_scalar_dense", keep=False)
                self.tape.write(self.tape.judge.read, entry.memory, site.source if site else "")
            if entry is not None and not self.tape.waits:
                self._reads(tensor, entry)
            if self.lane is not None:
                self.lane.read(tensor)

    def _reads(self, tensor: torch.Tensor, entry: Entry) -> None:
        """A number whose error is known."""
        is_narrow = tensor.element_size() < 4
        self.uncertainty.kept.reads(
            float(tensor.detach()), is_narrow or self.tape.error(entry) > ROUNDED
        )
        reference, node = self.references.of(tensor), entry.node
        if is_narrow and reference is not None and node is not None:
            read_at = self.places.find("aten._local_scalar_dense", keep=False)
            source = read_at.source if read_at else ""
            plateaus = self.changes.plateaus
            plateaus.reads(self._step, tensor, float(reference), node.site, source)

    # --- after the operator ---

    def _after(self, call: Call, args: tuple[Any, ...], kwargs: Any, result: Any) -> None:
        if self.followed.is_too_large(result):
            self.uncertainty.loses(floats(result))
            return
        self._decisions.whole_numbers(call.operator.schema_name, args, result)
        made = self._reference_result(call, args, kwargs, result)
        if made is _NONE:
            for written in call.written:
                self.references.restart(written.tensor)
            if call.inputs:
                self.uncertainty.loses(floats(result))
            else:
                self.uncertainty.draws(floats(result))
            return
        if call.written:
            for index, written in enumerate(call.written):
                call.position = written.position
                self._wrote(call, index, written)
            call.position = None
            self._changed(call)
        outputs = list(tensors_of(result))
        references = list(tensors_of(made))
        for index, (held, reference) in enumerate(zip(outputs, references, strict=False)):
            if not is_float(held):
                if held.dtype is torch.bool:
                    self._decisions.made(call, held, reference)
                elif call.operator.schema_name in SELECTIONS:
                    self._decisions.chose(call, index, held, reference)
                else:
                    self.tape.integers(call, held, reference)
                continue
            memory = held.untyped_storage()._cdata
            if memory in call.memories or held.shape != reference.shape:
                continue  # the argument itself, or a view of it
            if not reference.is_floating_point() and reference.dtype not in COMPLEX:
                continue
            entry = self.references.set(held, reference)
            if reference.stride() != held.stride():
                of_held = self.references.of(held)  # the same, in the held layout
                reference = reference if of_held is None else of_held
            call.memories.add(memory)
            call.position = index if call.operator.is_list else None
            self.tape.result(call, index, held, reference, entry)
            if held.element_size() < 4 and not call.written:
                self._carried_on(call, index, held, reference, entry)
        if call.node.outputs and call.node.args is not None:
            self.history.add(call.node)

    def _carried_on(
        self,
        call: Call,
        index: int,
        held: torch.Tensor,
        reference: torch.Tensor,
        entry: Entry,
    ) -> None:
        """A state that a line makes anew in each step, of the one that it made the step before, as
        `mean = mean + change`: it may stay as it was, as one that is changed in place.
        """
        if not self.followed.history or held.numel() > MOST_CARRIED:
            return
        for each in call.inputs:
            if each.held.dtype is not held.dtype or each.held.shape != held.shape:
                continue
            before = self.references.entry(each.tensor)
            made_at = self.changes.kept.made_at(each.tensor.untyped_storage()._cdata)
            if before is None or not before.kept or made_at != call.site.source or not made_at:
                continue
            (change,) = self.tape.compare_changes([(each.held, held, each.reference, reference)])
            written = Written(held, reference, entry, each.held, each.reference, entry.slot, None)
            self.changes.see(self.tape, call, index, written, change, None)
            return

    def _reference_result(self, call: Call, args: Any, kwargs: Any, result: Any) -> Any:
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
        if name == "aten::_amp_update_scale_":
            return _NONE  # what the scaler decides is the training's own
        decided = DECISIONS.get(name)
        if decided is not None and is_float(args[decided]):
            reference_args = list(reference_args)
            reference_args[decided] = widened(args[decided])
        if name in SOFTMAX:
            reference_args = (*reference_args[:2], False)
        elif operator.clamps_to_format(args, kwargs) or name.startswith("aten::fake_quantize"):
            if not operator.written:
                return call.reference_args[0].clone()
        elif name == "aten::_amp_foreach_non_finite_check_and_unscale_":
            inverse = reference_args[2]
            for gradient in reference_args[0]:
                gradient.mul_(inverse)
            reference_args[1].copy_(args[1])  # whether to skip is the training's own decision
            return reference_args[0]
        try:
            return products.run(call, reference_args, result)
        except Exception:
            self.restarts[operator.name] += 1
            return _NONE

    def _source(self, call: Call, written: Written) -> tuple[torch.Tensor, Entry] | None:
        """What `written` was copied from, by an operator that only copies; None where that was made
        in this step, and must not live on for it.
        """
        if call.operator.schema_name not in ("aten::copy_", "aten::_foreach_copy_"):
            return None
        for each in call.inputs:
            if each.position == written.position and each.tensor is not written.tensor:
                entry = self.references.entry(each.tensor)
                if entry is None or entry.new:
                    return None
                return each.tensor.detach(), entry
        return None

    def _wrote(self, call: Call, index: int, written: Written) -> None:
        name = self.changes.name(written.tensor)
        tensor, reference = written.tensor, written.reference
        self.tape.result(call, index, tensor, reference, written.entry, name)

    def _changed(self, call: Call) -> None:
        """What `call` did to what outlives the step is compared."""
        if not self.followed.history:
            return
        lasting: list[tuple[int, Written]] = []
        tensors = []
        for index, each in enumerate(call.written):
            if each.before is None or each.was is None or each.entry.new:
                continue
            if self.tape.waits or not self.tape.is_noise(each.entry):
                lasting.append((index, each))
                tensors.append((each.before, each.tensor, each.was, each.reference))
        changes = self.tape.compare_changes(tensors)
        for (index, each), change in zip(lasting, changes, strict=True):
            self.coverage.changes(each.tensor)
            self.changes.see(self.tape, call, index, each, change, self._source(call, each))
