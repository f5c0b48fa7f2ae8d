"""Gradients that are not finite in a step without shadow, while its loss is: which operator of the
loss's backward pass made them.

backward() frees what autograd has kept, so the nodes between the loss and the model's output are
kept as well until the step is over, where they are few and small. If the gradients turn out bad,
they run again under a shadow, forward and then backward, one node after the other.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction

from ..fp64.history import is_backed, is_float
from ..fp64.places import Site
from ..operators.modes import own_work
from ..operators.places import Place, pass_through
from .graph import (
    INVERSES,
    NO_EDGE,
    SHAPES,
    arguments_of,
    constant_of,
    kept_results,
    operator_of,
    saved_by,
)

MOST_NODES = 256
MOST_BYTES = 16 << 20

pass_through(__file__)


@dataclass(slots=True)
class _Kept:
    """One node of the loss's graph with what autograd has kept of it."""

    name: str
    operator: str
    saved: dict[str, Any]
    shape: tuple[int, ...]
    dtype: torch.dtype | None
    inputs: list[tuple[_Kept | None, int]]
    value: torch.Tensor | None  # of a leaf, or of the model's output
    site: Site | None = None
    known: torch.Tensor | None = None  # its result, as the node that used it has kept it
    is_output: bool = False  # of the model
    function: Any = None  # the node itself, where its derivative is the program's own


class _Context:
    """What the program's own derivative is called with: its node, whose tensors autograd has freed,
    with those that were kept of it.
    """

    def __init__(self, kept: _Kept) -> None:
        self._node = kept.function
        self.saved_tensors = tuple(kept.saved.values())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)


@dataclass(slots=True)
class _Run:
    """A node that has run again."""

    kept: _Kept
    inputs: list[torch.Tensor | None]  # leaves of its own, by the number of the edge
    outputs: list[torch.Tensor]
    is_known: bool = True  # the outputs are what they were


@dataclass(slots=True)
class LossBackward:
    """The loss's graph of one step."""

    _nodes: list[_Kept] = field(default_factory=list)  # inputs before those who use them
    _walk: list[_Kept] = field(default_factory=list)  # the same as LossGraph walks
    _loss: _Kept | None = None
    seconds: float = 0.0  # that the last keep() took

    def keep(self, losses: Iterable[torch.Tensor], output: torch.Tensor | None) -> None:
        """Before backward(). Keeps nothing of a graph that is too large."""
        began = time.thread_time()
        self._keep(losses, output)
        self.seconds = time.thread_time() - began

    def _keep(self, losses: Iterable[torch.Tensor], output: torch.Tensor | None) -> None:
        self.forget()
        loss = next((each for each in losses if each.grad_fn is not None), None)
        if loss is None:
            return
        root = None if output is None else output.grad_fn
        found: dict[Any, _Kept] = {}
        size = 0

        def visit(node: Any) -> _Kept | None:
            nonlocal size
            if node in found:
                return found[node]
            if len(found) >= MOST_NODES or size > MOST_BYTES:
                return None
            value = output if node is root else getattr(node, "variable", None)
            if value is not None and not is_backed(value):
                return None
            is_own = isinstance(node, BackwardCFunction)
            saved = {} if value is not None else _own_saved(node) if is_own else saved_by(node)
            if saved is None:
                return None
            size += sum(
                each.numel() * each.element_size()
                for each in saved.values()
                if isinstance(each, torch.Tensor)
            )
            metadata = list(getattr(node, "_input_metadata", None) or ())
            kept = found[node] = _Kept(
                node.name(),
                operator_of(node),
                saved,
                tuple(metadata[0].shape) if metadata else (),
                metadata[0].dtype if metadata else None,
                [],
                None if value is None else value.detach(),
                is_output=node is root,
                function=node if is_own else None,
            )
            self._walk.append(kept)
            if value is None:
                for each, number in node.next_functions:
                    before = None if each is None else visit(each)
                    if each is not None and before is None:
                        return None
                    kept.inputs.append((before, number))
            self._nodes.append(kept)
            return kept

        self._loss = visit(loss.grad_fn)
        if self._loss is None:
            self.forget()

    @property
    def output(self) -> torch.Tensor | None:
        """Of the model, where the graph ends."""
        return next((each.value for each in self._nodes if each.is_output), None)

    def forget(self) -> None:
        self._nodes, self._walk, self._loss = [], [], None

    def run(
        self,
        sites_of: Callable[[list[str]], list[Site | None]],
        at: Callable[[Place], None],
        reached: Callable[[torch.Tensor], None],
        output_again: torch.Tensor | None,
    ) -> None:
        """Runs all of it again. `sites_of(names)`: where nodes of these names stand; `at` hears of
        each node's place before it runs, `reached` of what arrives at the model's output and at
        leaves. `output_again`: the model's output, where that has run again and gave the same.
        """
        loss = self._loss
        if loss is None or not all(map(is_backed, self._tensors())):
            return
        for kept, site in zip(
            self._walk, sites_of([each.name for each in self._walk]), strict=True
        ):
            kept.site = site
            if kept.is_output and output_again is not None:
                kept.value = output_again
        self._learn_results()
        runs: dict[int, _Run] = {}
        for kept in self._nodes:
            made = _run_again(kept, runs, at)
            if made is not None:
                runs[id(kept)] = made
        if id(loss) in runs:
            _derive(loss, runs, self._nodes[::-1], at, reached)

    def _tensors(self) -> Iterator[torch.Tensor]:
        for kept in self._nodes:
            if kept.value is not None:
                yield kept.value
            yield from (each for each in kept.saved.values() if isinstance(each, torch.Tensor))

    def _learn_results(self) -> None:
        for kept in self._nodes:
            for before, result in kept_results(kept.operator, kept.inputs, kept.saved):
                if tuple(result.shape) == before.shape:
                    before.known = result


def _own_saved(node: Any) -> dict[str, Any] | None:
    """What the program's own derivative has kept."""
    try:
        saved = node.saved_tensors
    except RuntimeError:  # freed, or changed since
        return None
    backed = all(each is None or is_backed(each) for each in saved)
    return {f"saved {at}": each for at, each in enumerate(saved)} if backed else None


def _place(kept: _Kept) -> Place:
    site = kept.site
    if site is None:
        return Place(kept.operator, "", 0, None)
    return Place(kept.operator, site.file, site.line, site.module)


def _run_again(kept: _Kept, runs: dict[int, _Run], at: Callable[[Place], None]) -> _Run | None:
    if kept.value is not None:
        return _Run(kept, [], [kept.value])
    if kept.function is not None:
        return _Run(kept, [], [] if kept.known is None else [kept.known])
    inputs: list[Any] = []
    leaves: list[torch.Tensor | None] = []
    is_known = True
    for (before, number), name in zip(kept.inputs, _names(kept), strict=True):
        leaf = None
        if before is not None:
            run = runs.get(id(before))
            computed = run.outputs[number] if run and number < len(run.outputs) else None
            saved = _saved_input(kept, name, computed)
            leaf = _leaf(computed, saved)
            if leaf is None and number == 0 and not is_float(kept.saved.get("result")):
                leaf = _in_its_place(before)
                is_known = False
            elif run is not None and not run.is_known and saved is None:
                is_known = False
        leaves.append(leaf)
        inputs.append(NO_EDGE if before is None else leaf)
    at(_place(kept))
    with contextlib.nullcontext() if is_known else own_work():  # what is made up shows nothing
        outputs = _call(kept, inputs)
    return None if outputs is None else _Run(kept, leaves, outputs, is_known)


def _in_its_place(kept: _Kept) -> torch.Tensor | None:
    """Any values: of what autograd has not kept no derivative depends."""
    if kept.dtype is None or not kept.dtype.is_floating_point:
        return None
    return torch.ones(kept.shape, dtype=kept.dtype).requires_grad_()


def _names(kept: _Kept) -> list[str]:
    """Of the arguments that edges belong to, as far as that can be said for all operators."""
    usual = ["self", "other"] if len(kept.inputs) < 3 else ["self"]
    return [*usual, *[""] * len(kept.inputs)][: len(kept.inputs)]


def _saved_input(kept: _Kept, name: str, computed: Any) -> Any:
    """An input as it was kept, or as the result shows it to have been."""
    result = kept.saved.get("result")
    if name != "self" or kept.operator not in INVERSES or not is_float(result):
        return kept.saved.get(name)
    detached = result.detach()
    if computed is not None and computed.dtype is detached.dtype:
        again = getattr(torch, kept.operator)(computed.detach())
        if torch.equal(again.nan_to_num(), detached.nan_to_num()):
            return None  # what was computed gives the same
    return INVERSES[kept.operator](detached.double()).to(detached.dtype)


def _leaf(computed: Any, saved: Any) -> torch.Tensor | None:
    """The input as it was: what was computed where that is right, else what was kept."""
    held: torch.Tensor | None = computed
    if isinstance(saved, torch.Tensor) and is_float(saved):
        same = (
            computed is not None
            and computed.dtype is saved.dtype
            and torch.equal(computed.nan_to_num(), saved.nan_to_num())
        )
        held = computed if same else saved
    if held is None or not is_float(held):
        return None
    return held.detach().requires_grad_()


def _call(kept: _Kept, inputs: list[Any]) -> list[torch.Tensor] | None:
    with torch.enable_grad():
        first = inputs[0] if inputs else None
        if isinstance(first, torch.Tensor):
            if kept.operator == "to_copy" and kept.dtype is not None:
                return [first.to(kept.dtype)]
            if kept.operator in SHAPES:
                same = first.numel() == torch.Size(kept.shape).numel()
                return [first.reshape(kept.shape) if same else first.expand(kept.shape)]
        packet = getattr(torch.ops.aten, kept.operator, None)
        if packet is None:
            return None
        for name in packet.overloads():
            overload = getattr(packet, name)
            # Where the number is not known any will do: the derivative does not depend on it.
            known = None
            if isinstance(first, torch.Tensor):
                known = constant_of(kept.operator, first, kept.known)
            constant = 1.0 if known is None else known
            call = arguments_of(overload, kept.saved, inputs, lambda value: value, constant)
            if call is None:
                continue
            try:
                result = run_again(overload, call)
            except Exception:
                continue
            several = list(result) if isinstance(result, (tuple, list)) else [result]
            if is_float(several[0]) and several[0].shape == kept.shape and several[0].grad_fn:
                return several
    return None


def run_again(overload: Any, call: list[Any]) -> Any:
    """Under this name the place of the node is that of the operators (operators/places.py)."""
    return overload(*call)


def _derive(
    loss: _Kept,
    runs: dict[int, _Run],
    nodes: list[_Kept],
    at: Callable[[Place], None],
    reached: Callable[[torch.Tensor], None],
) -> None:
    """The backward pass, node by node from the loss on."""
    gradients: dict[tuple[int, int], torch.Tensor] = {}
    gradients[id(loss), 0] = torch.ones_like(runs[id(loss)].outputs[0])
    for kept in nodes:
        run = runs.get(id(kept))
        if run is None:  # the way ends here
            for (node, _), gradient in gradients.items():
                if node == id(kept):
                    reached(gradient)
            continue
        pairs = [
            (output, gradients[id(kept), number])
            for number, output in enumerate(run.outputs)
            if (id(kept), number) in gradients
        ]
        if kept.value is not None:
            for _, gradient in pairs:
                reached(gradient)
            continue
        pairs = [(output, gradient) for output, gradient in pairs if output.requires_grad]
        leaves = [each for each in run.inputs if each is not None]
        if kept.function is not None:
            at(_place(kept))
            _derive_own(kept, gradients)
            continue
        if not pairs or not leaves:
            continue
        at(_place(kept))
        made = torch.autograd.grad(
            [output for output, _ in pairs],
            leaves,
            [gradient for _, gradient in pairs],
            allow_unused=True,
        )
        news = iter(made)
        for (before, number), leaf in zip(kept.inputs, run.inputs, strict=True):
            new = next(news) if leaf is not None else None
            if before is None or new is None:
                continue
            _add(gradients, (id(before), number), new)


def _add(
    gradients: dict[tuple[int, int], torch.Tensor], key: tuple[int, int], new: torch.Tensor
) -> None:
    if key in gradients:
        new = run_again(torch.ops.aten.add.Tensor, [gradients[key], new])
    gradients[key] = new


def _derive_own(kept: _Kept, gradients: dict[tuple[int, int], torch.Tensor]) -> None:
    """By a derivative that the program has written; of one that fails nothing is known."""
    count = len(kept.function._input_metadata)
    given = [gradients.get((id(kept), number)) for number in range(count)]
    if all(each is None for each in given):
        return
    try:
        with torch.no_grad():
            made = kept.function._forward_cls.backward(_Context(kept), *given)
    except Exception:
        return
    made = made if isinstance(made, tuple) else (made,)
    for (before, number), new in zip(kept.inputs, made, strict=False):
        if before is not None and isinstance(new, torch.Tensor):
            _add(gradients, (id(before), number), new)
