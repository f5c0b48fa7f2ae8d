"""Which operator makes a value that is not finite: a dispatch mode for single steps.

The mode calls each operator with exactly what came and returns exactly what that returned; it only
looks. It belongs to one step and to the thread that pushed it (and, as torch hands modes on, to the
threads of the backward pass). When it is on is decided in tracing.py and modes.py.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from .._core import figures, nonfinite
from ..base.record import Record
from .as_called import run_as_called
from .half_integers import lost_integers, makes_integers
from .modes import StepMode
from .origins import NAN, NEGINF, POSINF, Origin, fact_of, rank
from .places import Place, find_place, pass_through

MAX_ORIGINS = 32  # a step
MAX_PLACES = 200_000  # operators of a step whose place is kept for its backward pass

# Operators whose output is not made of values: memory that nobody has written yet, or bookkeeping.
_NO_VALUES = ("empty", "new_empty", "_efficientzerotensor", "resize", "set_", "record_stream")
# Operators in place that overwrite without reading.
_OVERWRITE = frozenset(
    "copy_ fill_ zero_ normal_ uniform_ random_ bernoulli_ exponential_ cauchy_ log_normal_"
    " geometric_".split()
)
_SILENT = frozenset(
    ("profiler", "prim", "prims", "rngprims", "c10d", "_c10d_functional", "_dtensor")
)

_graph_task_id: Callable[[], int] = getattr(torch._C, "_current_graph_task_id", lambda: -1)
_autograd_node: Callable[[], Any] = getattr(torch._C, "_current_autograd_node", lambda: None)
_sequence_number: Callable[[], int] = getattr(torch._C._autograd, "_get_sequence_nr", lambda: -1)


class Operator:
    """What is known of an operator, looked up once."""

    __slots__ = ("integers", "is_list", "look", "name", "skip_first", "written", "written_names")

    def __init__(self, function: Any) -> None:
        self.name = str(function).removesuffix(".default")
        self.look = True
        self.skip_first = self.is_list = self.integers = False
        self.written: tuple[int, ...] = ()
        self.written_names: tuple[str, ...] = ()
        schema = getattr(function, "_schema", None)
        if schema is None:
            return  # an operator of higher order
        namespace, _, rest = schema.name.partition("::")
        self.integers = makes_integers(schema.name)
        self.skip_first = rest in _OVERWRITE
        self.is_list = rest.startswith(("_foreach", "_fused"))
        written = [
            (at, argument)
            for at, argument in enumerate(schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]
        self.written = tuple(at for at, argument in written if not argument.kwarg_only)
        self.written_names = tuple(argument.name for _, argument in written)
        views = any(result.alias_info is not None for result in schema.returns)
        self.look = (
            (bool(written) or not views)
            and namespace not in _SILENT
            and not rest.startswith(_NO_VALUES)
        )

    def read(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments whose values are read; `out=` and what is only overwritten is not."""
        by_name = [value for key, value in kwargs.items() if key not in self.written_names]
        return (*args[1 if self.skip_first else 0 :], *by_name)

    def made(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        if not self.written_names:
            return result
        return (
            [args[at] for at in self.written if at < len(args)],
            [kwargs[key] for key in self.written_names if key in kwargs],
            result,
        )


pass_through(__file__)
_operators: dict[Any, Operator] = {}


def scalars(value: Any, depth: int = 0) -> int:
    """The bits of numbers that are not finite among the arguments: a mask's -inf is one."""
    if isinstance(value, float):
        if math.isfinite(value):
            return 0
        return NAN if math.isnan(value) else POSINF if value > 0 else NEGINF
    bits = 0
    if isinstance(value, (tuple, list)) and depth < 3:
        for each in value:
            bits |= scalars(each, depth + 1)
    return bits


def _bad(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in `value` that are not finite."""
    if isinstance(value, torch.Tensor):
        if nonfinite(value):
            yield value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _bad(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _bad(each)


def memory_of(tensor: torch.Tensor) -> int:
    """What a tensor and its views have in common."""
    try:
        return tensor.untyped_storage().data_ptr()
    except Exception:  # it has none of its own
        return 0


class OperatorTrace(StepMode):
    """Pushed for one step. `modules`: names of the model's modules by id. `trouble` hears of what
    goes wrong in here, `found` of integers that half precision has lost, `refuse` why it was not
    put on the stack. After `deadline` (perf_counter) it only passes on: the step was left without
    an end.
    """

    supports_higher_order_operators = True

    def __init__(
        self,
        modules: dict[int, str],
        record: Record,
        trouble: Callable[[Exception], None],
        found: Callable[[str], None],
        refuse: Callable[[str], None],
        deadline: float,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.origins: list[Origin] = []
        self.blamed: Origin | None = None
        self.operators = 0
        self.in_optimizer = False
        self._modules = modules
        self._record = record
        self._trouble = trouble
        self._found = found
        self._refuse = refuse
        self._deadline = deadline
        # Where memory that was not finite when it was last written has that from.
        self._made_by: dict[int, Origin | None] = {}
        self._places: dict[int, Place] = {}  # by the number of the node that autograd made
        self._forward_seen = False
        self._backward_seen = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if kwargs is None:
            kwargs = {}
        before = None
        if self.looking:
            try:
                before = self._before(func, args, kwargs)
            except Exception as error:
                self._stop(error)
        result = run_as_called(func, args, kwargs)
        if before is not None:
            try:
                self._after(*before, args, kwargs, result)
            except Exception as error:
                self._stop(error)
        return result

    def refused(self, why: str) -> None:
        self._refuse(why)

    def _stop(self, error: Exception) -> None:
        self.looking = False
        self._trouble(error)

    def _before(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Operator, Place | None, int, float | None] | None:
        if time.perf_counter() > self._deadline:
            self.looking = False
            return None
        operator = _operators.get(func)
        if operator is None:
            operator = _operators[func] = Operator(func)
        place = None
        if _graph_task_id() != -1:
            self._backward_seen = True
        elif not self.in_optimizer:
            # Of views too: their backward passes make values.
            place = find_place(operator.name, self._modules)
            if place is None:
                return None
            if place.module is not None:
                self._forward_seen, self._backward_seen = True, False
            if len(self._places) < MAX_PLACES:
                self._places.setdefault(_sequence_number() - 1, place)
        if not operator.look:
            return None
        self.operators += 1
        return operator, place, *self._look_before(operator, args, kwargs)

    def _look_before(self, operator: Operator, args: Any, kwargs: Any) -> tuple[int, float | None]:
        if not operator.written_names:
            return 0, None
        read = operator.read(args, kwargs)  # afterwards the inputs are not what they were
        bits = nonfinite(read)
        return bits, figures(read)[4] if not bits and not operator.is_list else None

    def _after(
        self,
        operator: Operator,
        place: Place | None,
        bits: int,
        largest: float | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        result: Any,
    ) -> None:
        made = operator.made(args, kwargs, result)
        out = nonfinite(made)
        if operator.integers and not out:
            lost = lost_integers(operator.name, args, result)
            if lost is not None:
                self._found(lost + (f" ({self._short(place)})" if place is not None else ""))
        if not out:
            return
        read = operator.read(args, kwargs)
        if not operator.written_names:
            bits = nonfinite(read)
        with_numbers = bits | scalars(args) | scalars(list(kwargs.values()))
        origin = None
        if bits:  # else memory that is bad now was not before, whatever it had held once
            known = (self._made_by.get(memory_of(tensor)) for tensor in _bad(read))
            origin = next((each for each in known if each is not None), None)
        if rank(out) > rank(with_numbers) and len(self.origins) < MAX_ORIGINS:
            if not operator.written_names:
                largest = figures(read)[4]
            origin = self._origin(operator, place, with_numbers, largest, made, origin)
            self.origins.append(origin)
        for tensor in _bad(made):
            self._made_by[memory_of(tensor)] = origin

    def blame(self, value: Any) -> None:
        """`value` is what an alert will be about: its origin is named. The first counts."""
        if self.blamed is not None or not self.origins:
            return
        for tensor in _bad(value):
            self.blamed = self._made_by.get(memory_of(tensor))
            if self.blamed is not None:
                return

    # --- what is reported ---

    def _origin(
        self,
        operator: Operator,
        place: Place | None,
        bits: int,
        largest: float | None,
        made: Any,
        parent: Origin | None,
    ) -> Origin:
        bad = next(_bad(made), None)
        nan, posinf, neginf, numel, _ = figures(made if bad is None else bad)
        counts = {"nan": nan, "posinf": posinf, "neginf": neginf}
        return self.origin(
            self.where(operator, place),
            operator,
            parent,
            made={kind: count for kind, count in counts.items() if count},
            dtype="" if bad is None else str(bad.dtype)[6:],
            shape=None if bad is None else list(bad.shape),
            elements=numel,
            bits=bits,
            largest=largest,
        )

    def origin(
        self,
        where: tuple[str, Place, dict[str, str]],
        operator: Operator,
        parent: Origin | None,
        **facts: Any,
    ) -> Origin:
        """`facts`: those of fact_of() that tell what came out and what went in."""
        phase, place, within = where
        name = operator.name
        if phase == "backward" and place.operator != operator.name:
            name = f"backward of {place.operator}"
        module = self._record.layer(place.module) if place.module else None
        source = self._record.source(place.source)
        if module:
            name = f"{module}: {name}"
        return Origin(
            phase=phase,
            module=place.module,
            name=name + (f" ({self._short(place)})" if place.file else ""),
            source=source,
            parent=parent,
            fact=fact_of(
                operator.name,
                phase,
                source if place.file else "",
                module,
                within,
                **facts,
            ),
        )

    def where(self, operator: Operator, place: Place | None) -> tuple[str, Place, dict[str, str]]:
        """Phase, place and, of a backward pass, whose it is: a member of the operator's facts."""
        phase = self._phase(place)
        if phase == "backward":
            place, within = self._place_in_backward(operator)
            return phase, place, within
        return phase, place or self._find(operator.name), {}

    def _find(self, operator: str) -> Place:
        return find_place(operator, self._modules) or Place(operator, "", 0, None)

    def _short(self, place: Place) -> str:
        if self._record.minimal:
            return self._record.source(place.source)
        return place.source.rpartition("/")[2]

    def _place_in_backward(self, operator: Operator) -> tuple[Place, dict[str, str]]:
        """The forward operator that the running node belongs to; a backward pass that the user
        wrote, or a forward one that is run again, is its own place.
        """
        node = _autograd_node()
        name = node.name().rpartition("::")[2] if node is not None else "the backward pass"
        own = self._find(operator.name)
        if own.file:
            return own, {"autograd_node": name}
        forward = self._places.get(node._sequence_nr()) if node is not None else None
        if forward is not None:
            return forward, {"backward_of": forward.operator}
        return Place(f"{operator.name} in {name}", "", 0, None), {"autograd_node": name}

    def _phase(self, place: Place | None) -> str:
        if self.in_optimizer:
            return "optimizer"
        if _graph_task_id() != -1:
            return "backward"
        if place is not None and place.module is not None:
            return "forward"
        if self._backward_seen:
            return "optimizer"  # clipping and the like
        return "loss" if self._forward_seen else "data"
