"""Gradients that are not finite in a step without shadow, while its loss is: which operator of the
loss's backward pass made them.

backward() frees what autograd has kept, so the nodes between the loss and the model's output are
kept as well until the step is over, where they are few and small. If the gradients turn out bad,
they run again under a shadow, forward and then backward, one node after the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from ..fp64.history import is_backed, is_float
from ..fp64.places import Site
from ..operators.places import Place, pass_through
from .graph import (
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


@dataclass(slots=True)
class _Run:
    """A node that has run again."""

    kept: _Kept
    inputs: list[torch.Tensor | None]  # leaves of its own, by the number of the edge
    outputs: list[torch.Tensor]


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
            saved = {} if value is not None else saved_by(node)
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

    def forget(self) -> None:
        self._nodes, self._walk, self._loss = [], [], None

    def run(
        self,
        sites_of: Callable[[list[str]], list[Site | None]],
        at: Callable[[Place], None],
        reached: Callable[[torch.Tensor], None],
    ) -> None:
        """Runs all of it again. `sites_of(names)`: where nodes of these names stand; `at` hears of
        each node's place before it runs, `reached` of what arrives at the model's output and at
        leaves.
        """
        loss = self._loss
        if loss is None or not all(map(is_backed, self._tensors())):
            return
        for kept, site in zip(
            self._walk, sites_of([each.name for each in self._walk]), strict=True
        ):
            kept.site = site
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
            for before, result in kept_results(kept.inputs, kept.saved):
                if tuple(result.shape) == before.shape:
                    before.known = result


def _place(kept: _Kept) -> Place:
    site = kept.site
    if site is None:
        return Place(kept.operator, "", 0, None)
    return Place(kept.operator, site.file, site.line, site.module)


def _run_again(kept: _Kept, runs: dict[int, _Run], at: Callable[[Place], None]) -> _Run | None:
    if kept.value is not None:
        return _Run(kept, [], [kept.value])
    inputs: list[Any] = []
    leaves: list[torch.Tensor | None] = []
    for (before, number), name in zip(kept.inputs, _names(kept), strict=True):
        leaf = None
        if before is not None:
            run = runs.get(id(before))
            computed = run.outputs[number] if run and number < len(run.outputs) else None
            leaf = _leaf(computed, kept.saved.get(name))
        leaves.append(leaf)
        inputs.append(NO_EDGE if before is None else leaf)
    at(_place(kept))
    outputs = _call(kept, inputs)
    return None if outputs is None else _Run(kept, leaves, outputs)


def _names(kept: _Kept) -> list[str]:
    """Of the arguments that edges belong to, as far as that can be said for all operators."""
    usual = ["self", "other"] if len(kept.inputs) < 3 else ["self"]
    return [*usual, *[""] * len(kept.inputs)][: len(kept.inputs)]


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
            key = (id(before), number)
            if key in gradients:
                new = run_again(torch.ops.aten.add.Tensor, [gradients[key], new])
            gradients[key] = new
