"""The graph of a loss, read before backward() frees it: which operator of the loss made the first
value that is not finite.

From the model's output on, the operators are computed again along the graph: in the types that they
had, in FP32 and in FP64. Other inputs are those that autograd keeps for the derivatives. Not finite
in FP64 too means that no precision helps, if the whole way from the leaves was computed: what the
model makes of its batch in FP64 as well, and no input taken as autograd kept it, which may have
been rounded before. Of what came in, a quarter of an ulp more and less is tried, too. The graph
knows no lines: they are remembered from the last shadow step, whose loss had a graph of the same
shape.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import partial
from typing import Any

import torch

from ..fp64.findings import EXCLUDED, NOT_TESTED, PROVEN, RANGE, UNDEFINED, Cure, Finding
from ..fp64.history import is_backed, is_clean, is_float
from ..fp64.places import Site
from ..fp64.uncertainty import ROUNDED, Uncertainty, grid_of, moved

MOST_NODES = 4096
# What is computed with, and by how much of an ulp what comes in with 16 bits is larger. None: as it
# was held.
LANES = (
    (None, 0.0),
    (torch.float32, 0.0),
    (torch.float64, 0.0),
    (torch.float64, 0.25),
    (torch.float64, -0.25),
)
# Nodes whose result is their input's elements in another shape.
SHAPES = frozenset(
    ("view", "unsafe_view", "reshape_alias", "squeeze", "unsqueeze", "alias", "clone", "expand")
)
# Functions that are positive everywhere: a 0 out of them is one that was flushed.
_POSITIVE = frozenset(("exp", "exp2", "sigmoid", "softmax", "softplus"))


_saved_names: dict[type, list[str]] = {}  # by the type of the node


@dataclass(slots=True)
class _Remembered:
    """One node of the graph, in the order of a depth-first walk."""

    name: str
    site: Site | None


def _walk(losses: Iterable[torch.Tensor]) -> list[Any]:
    """The nodes behind `losses`, always in the same order for the same graph."""
    found: list[Any] = []
    seen: set[Any] = set()
    stack = [loss.grad_fn for loss in losses if loss.grad_fn is not None][::-1]
    while stack and len(found) < MOST_NODES:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        found.append(node)
        stack.extend(each for each, _ in reversed(node.next_functions) if each is not None)
    return found


def operator_of(node: Any) -> str:
    """LogSoftmaxBackward0 -> log_softmax."""
    name = re.sub(r"Backward\d*$", "", node.name().rpartition("::")[2])
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


class LossGraph:
    """Remembers where the operators of the loss stand."""

    def __init__(self) -> None:
        self._remembered: list[_Remembered] = []

    def remember(
        self, losses: Iterable[torch.Tensor], site_of: Callable[[int], Site | None]
    ) -> None:
        """In a shadow step. `site_of`: where the node with this sequence number was made."""
        self._remembered = [
            _Remembered(node.name(), site_of(node._sequence_nr())) for node in _walk(losses)
        ]

    def find(
        self,
        losses: list[torch.Tensor],
        output: torch.Tensor | None,
        exact: torch.Tensor | None,
        uncertainty: Uncertainty,
    ) -> Finding | None:
        """The operator whose inputs are finite and whose result is not; None where the graph does
        not show one. `output`: of the model, `exact`: the same in FP64, where that was computed of
        its inputs; `uncertainty`: of the step.
        """
        nodes = _walk(losses)
        names = [node.name() for node in nodes]
        replay = _Replay(output, exact, uncertainty)
        for loss in losses:
            if loss.grad_fn is not None:
                replay.value(loss.grad_fn)
        if replay.first is None:
            return None
        return _finding(replay.first, self.sites(names)[nodes.index(replay.first.node)])

    def sites(self, names: list[str]) -> list[Site | None]:
        """Where the nodes of a loss stand, by their names in the order of the walk: as in the last
        shadow step, whose graph may have had more turns of a loop, or fewer.
        """
        known = [each.name for each in self._remembered]
        found: list[Site | None] = [None] * len(names)
        blocks = SequenceMatcher(None, known, names, autojunk=False).get_matching_blocks()
        for block in blocks:
            for at in range(block.size):
                found[block.b + at] = self._remembered[block.a + at].site
        return found


@dataclass(slots=True)
class _First:
    """The first node that made something that is not finite."""

    node: Any
    operator: str
    held: torch.Tensor
    exact: torch.Tensor
    cured_in: str  # "" if nothing cures it
    positive: bool  # what went in was a 0 that cannot be one
    whole: bool  # all that led to it was computed from leaves
    rounded: bool  # it is finite with values that round to those that came in


def _finding(first: _First, site: Site | None) -> Finding:
    if site is None:
        site = Site(first.operator, first.operator, "loss", "", 0, None)
    bad = ~first.held.isfinite()
    finite = first.exact.isfinite()
    in_range = bool(finite[bad].all()) or first.positive
    finding = Finding(
        kind=RANGE if in_range else UNDEFINED,
        site=site,
        number=0,
        dtype=str(first.held.dtype)[6:],
        shape=str(list(first.held.shape)),
        share=bad.sum().item() / max(1, bad.numel()),
        magnitude=first.exact[finite].abs().max().item() if bool(finite.any()) else 0.0,
        error_in=0.0,
        error_out=math.inf,
        precision=NOT_TESTED,
        severity="ERROR",
    )
    if not in_range and first.rounded:
        finding.detail["rounded_before"] = True
    elif not in_range and first.whole:
        finding.precision = EXCLUDED
    elif first.cured_in or first.positive:
        finding.precision = PROVEN
    if first.cured_in:
        lines = [site.source] if site.source else []
        # That it stays finite is all that was computed: from where the graph begins, and not from
        # the batch on, so that there is no error to tell.
        finding.cure = Cure(lines, [first.operator], first.cured_in, math.inf, None)
    finding.reach["loss", ""] = math.inf
    finding.detail["read_from"] = f"the graph of the loss: {first.node.name()}"
    return finding


class _Values(tuple[torch.Tensor, ...]):
    """A result, once for each of LANES."""


NO_EDGE: Any = object()  # an input without a derivative


class _Replay:
    """Computes nodes again, each once; what cannot be computed is None."""

    def __init__(
        self, output: torch.Tensor | None, exact: torch.Tensor | None, uncertainty: Uncertainty
    ) -> None:
        self._uncertainty = uncertainty
        self._values: dict[Any, list[_Values] | None] = {}
        self._whole: set[Any] = set()  # nodes whose whole way was computed
        self._known: dict[Any, torch.Tensor] = {}  # results, as the node that used them kept them
        self.first: _First | None = None
        if output is not None and output.grad_fn is not None and output.output_nr == 0:
            self._values[output.grad_fn] = [_in_lanes(output, exact)]
            if exact is not None:
                self._whole.add(output.grad_fn)

    def value(self, node: Any) -> list[_Values] | None:
        """The results of `node`."""
        if node in self._values:
            return self._values[node]
        self._values[node] = None  # while it is computed
        leaf = getattr(node, "variable", None)
        if isinstance(leaf, torch.Tensor) and is_float(leaf) and is_backed(leaf):
            made: list[_Values] | None = [_in_lanes(leaf, leaf)]
            self._whole.add(node)
        else:
            saved = saved_by(node)
            kept = kept_results(operator_of(node), node.next_functions, saved or {})
            for before, result in kept:
                self._known[before] = result
            inputs = []
            for each, number in node.next_functions:
                results = None if each is None else self.value(each)
                if each is None:
                    inputs.append(NO_EDGE)
                else:
                    known = results is not None and number < len(results)
                    inputs.append(results[number] if known and results else None)
            made = self._compute(node, inputs, saved)
        self._values[node] = made
        return made

    def _compute(
        self, node: Any, inputs: list[Any], saved: dict[str, Any] | None
    ) -> list[_Values] | None:
        before = [each for each, _ in node.next_functions if each is not None]
        if all(each in self._whole for each in before):
            self._whole.add(node)
        made = self._computed(node, inputs, saved)
        if made is None:
            self._whole.discard(node)
        return made

    def _computed(
        self, node: Any, inputs: list[Any], saved: dict[str, Any] | None
    ) -> list[_Values] | None:
        operator = operator_of(node)
        metadata = list(getattr(node, "_input_metadata", None) or ())
        first = inputs[0] if inputs else None
        if metadata and isinstance(first, _Values):
            if operator == "to_copy":
                return [_Values((first[0].to(metadata[0].dtype), *first[1:]))]
            if operator in SHAPES:
                return [_reshaped(first, tuple(metadata[0].shape))]
        packet = getattr(torch.ops.aten, operator, None)
        if packet is None or saved is None:
            return None
        constant = None
        if isinstance(first, _Values):
            constant = constant_of(operator, first[0], self._known.get(node))
        adds_a_number = operator in ADDS and (len(inputs) < 2 or NO_EDGE in inputs)
        if adds_a_number and constant is None:
            self._whole.discard(node)  # it is not known
        numbers = [each for each in (*saved.values(), constant) if type(each) is float]
        if any(map(self._uncertainty.kept.of_number, numbers)):
            self._whole.discard(node)
        for name in packet.overloads():
            overload = getattr(packet, name)
            call = arguments_of(overload, saved, inputs, partial(self._kept, node), constant)
            made = None if call is None else self._run(node, overload, call, metadata)
            if made is not None:
                return made
        return None

    def _kept(self, node: Any, value: torch.Tensor) -> _Values:
        """What goes into `node` as autograd has kept it."""
        uncertainty = self._uncertainty
        memory = value.untyped_storage()._cdata
        is_batch = uncertainty.batch is not None and memory in uncertainty.batch
        ulp = uncertainty.of(value)[0]
        if not is_batch and (ulp > ROUNDED or not bool(value.isfinite().all())):
            self._whole.discard(node)  # it was rounded, or made so, and nobody knows of what
        is_given = is_batch or value.numel() == 1 or bool((value == value.round()).all())
        return _in_lanes(value, value if is_given else None)

    def _run(
        self, node: Any, overload: Any, call: list[Any], metadata: list[Any]
    ) -> list[_Values] | None:
        made: list[list[torch.Tensor]] = []
        for at in range(len(LANES)):
            arguments = [each[at] if isinstance(each, _Values) else each for each in call]
            try:
                with torch.no_grad():
                    result = overload(*arguments)
            except Exception:
                return None
            several = list(result) if isinstance(result, (tuple, list)) else [result]
            floats = [each for each in several if isinstance(each, torch.Tensor)]
            if not floats or not floats[0].is_floating_point():
                return None
            made.append(floats)
        if metadata and tuple(made[0][0].shape) != tuple(metadata[0].shape):
            return None  # another overload
        results = [_Values(each) for each in zip(*made, strict=True)]
        inputs = [each for each in call if isinstance(each, _Values)]
        held = results[0][0]
        if not bool(held.isfinite().all()) and all(is_clean(each[0]) for each in inputs):
            if self.first is None:
                self.first = self._first(node, overload, inputs, results[0])
        return results

    def _first(self, node: Any, overload: Any, inputs: list[Any], made: _Values) -> _First:
        held, single, exact, *moved = made
        bad = ~held.isfinite()
        cured = ""
        if bool(single[bad].isfinite().all()):
            cured = "float32"
        elif bool(exact[bad].isfinite().all()):
            cured = "float64"
        positive = any(
            each is not None and operator_of(each) in _POSITIVE for each, _ in node.next_functions
        ) and any(bool((each[0] == 0).any()) for each in inputs)
        rounded = any(bool(each[bad].isfinite().all()) for each in moved)
        name = str(overload).removesuffix(".default")
        return _First(node, name, held, exact, cured, positive, node in self._whole, rounded)


def _reshaped(values: _Values, shape: tuple[int, ...]) -> _Values:
    if values[0].numel() == math.prod(shape):
        return _Values(each.reshape(shape) for each in values)
    return _Values(each.expand(shape) for each in values)


def _in_lanes(tensor: torch.Tensor, exact: torch.Tensor | None) -> _Values:
    """`exact`: in FP64, from where it was made, or itself where it is as the program made it; None:
    it may have been rounded before.
    """
    tensor = tensor.detach()
    ulp = grid_of(tensor)
    if not ulp and exact is None:
        ulp = torch.finfo(tensor.dtype).eps
    best = tensor if exact is None else exact.detach()

    def lane(kind: torch.dtype | None, ulps: float) -> torch.Tensor:
        value = tensor if kind is None else (best if kind is torch.float64 else tensor).to(kind)
        return moved(value, ulp, ulps) if ulps * ulp else value

    return _Values(lane(*each) for each in LANES)


# Of operators that keep their result alone: what went in.
INVERSES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sqrt": torch.square,
    "rsqrt": lambda result: result.square().reciprocal(),
    "reciprocal": torch.reciprocal,
    "exp": torch.log,
    "tanh": torch.atanh,
    "sigmoid": torch.logit,
}


def kept_results(
    operator: str, edges: Iterable[tuple[Any, int]], saved: dict[str, Any]
) -> Iterator[tuple[Any, torch.Tensor]]:
    """What went into a node is what those before it have made: each of them with its result, where
    the node has kept it, or what its own result shows it to have been.
    """
    if operator in INVERSES and is_float(saved.get("result")):
        result = saved["result"].detach()
        saved = saved | {"self": INVERSES[operator](result.double()).to(result.dtype)}
    for (before, number), name in zip(edges, ("self", "other"), strict=False):
        value = saved.get(name)
        if before is not None and number == 0 and isinstance(value, torch.Tensor):
            if is_float(value):
                yield before, value


ADDS = frozenset(("add", "sub", "rsub"))


def constant_of(operator: str, first: torch.Tensor, result: torch.Tensor | None) -> float | None:
    """A number that was added or subtracted: autograd does not keep it, the result shows it. None
    where the result is not known, or where it was no single number.
    """
    if result is None or operator not in ADDS or first.shape != result.shape:
        return None
    first, kind = first.double(), result.dtype
    result = result.double()
    found = {"add": result - first, "sub": first - result, "rsub": result + first}[operator]
    found = found[found.isfinite()].flatten().detach()
    if not found.numel():
        return None
    size = torch.maximum(first.abs(), result.abs()).nan_to_num(0.0, 0.0, 0.0).max()
    # Rounding makes some of them another number: the one that most say.
    usual = found.to(kind).mode().values
    is_one = bool(((found - usual).abs() <= 2 * torch.finfo(kind).eps * size).all())
    return float(usual) if is_one else None


def saved_by(node: Any) -> dict[str, Any] | None:
    """What autograd has kept for the node's derivative, by the names of arguments."""
    kind = type(node)
    names = _saved_names.get(kind)
    if names is None:
        names = [name for name in dir(node) if name.startswith("_saved_")]
        _saved_names[kind] = names
    found: dict[str, Any] = {}
    for name in names:
        try:
            value = getattr(node, name)
        except RuntimeError:  # freed, or changed since
            return None
        if isinstance(value, torch.Tensor) and not is_backed(value):
            return None
        found[name[7:]] = signed(value)
    return found


def signed(value: Any) -> Any:
    """Autograd keeps a dimension counted from the end as a number without sign."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1 << 63:
        return value - (1 << 64)
    if isinstance(value, (tuple, list)) and value and all(type(each) is int for each in value):
        return [signed(each) for each in value]
    return value


def arguments_of(
    overload: Any,
    saved: dict[str, Any],
    inputs: list[Any],
    lift: Callable[[torch.Tensor], Any],
    constant: float | None = None,
) -> list[Any] | None:
    """The arguments of a call; None where one is missing. `inputs`: those along the graph's edges,
    None where one could not be computed. `lift`: makes of a float tensor what `inputs` consists of.
    `constant`: a number that was not kept.
    """
    arguments: list[Any] = []
    known = False
    position = 0  # among the tensors that have a derivative
    for argument in overload._schema.arguments:
        if argument.kwarg_only:
            break
        kind = str(argument.type)
        if kind in ("Tensor", "Optional[Tensor]"):
            value = saved.get(argument.name)
            if isinstance(value, (int, float)):
                return None  # it was called with a number: another overload
            if isinstance(value, torch.Tensor) and not value.dtype.is_floating_point:
                arguments.append(value)  # a condition, an index: it has no derivative
                continue
            computed = inputs[position] if position < len(inputs) else NO_EDGE
            position += 1
            if computed is not None and computed is not NO_EDGE:
                known = True
                arguments.append(computed)
            elif isinstance(value, torch.Tensor):
                known = True
                arguments.append(lift(value) if is_float(value) else value)
            elif computed is None:
                return None  # it was not to be had
            elif kind != "Tensor":
                arguments.append(None)
            elif constant is not None:
                arguments.append(lift(torch.tensor(constant)))
            elif (like := next((each for each in saved.values() if is_float(each)), None)) is None:
                return None
            else:  # not kept: any finite number shows what the others do
                arguments.append(lift(like.new_ones(())))
            continue
        value = saved.get(argument.name)
        if value is None and argument.has_default_value():
            value = argument.default_value
        if value is None and kind == "number":
            value = constant
        if value is None and not kind.startswith("Optional"):
            return None
        if isinstance(value, torch.Tensor):
            return None
        arguments.append(value)
    return arguments if known else None
