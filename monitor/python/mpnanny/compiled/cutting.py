"""A backend of torch.compile that compiles a stretch of the program alone. Dynamo's graphs run as
they are written, operator by operator, but for the stretch, which goes through the compiler as a
graph of its own, with its own derivative.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch.amp import autocast_mode

from .backends import Backend

_ENTERS: Any = getattr(autocast_mode, "_enter_autocast", None)
_EXITS: Any = getattr(autocast_mode, "_exit_autocast", None)
# What begins and ends a region by a call whose result nobody takes; it stays on one side of a cut.
_BEGINS = ("increment_nesting", "saved_tensors_hooks_disable", "enter_inference_mode")
_ENDS = ("decrement_nesting", "saved_tensors_hooks_enable", "exit_inference_mode")


@dataclass(slots=True)
class Cut:
    """A backend that compiles the nodes `first` to `end` of all graphs, counted through, as far as
    `stage`. `nodes` and `points` (where a stretch may begin and end) come from the run.
    """

    stage: str
    first: int = 0
    end: int = 1 << 62
    nodes: list[fx.Node] = field(default_factory=list)
    points: list[int] = field(default_factory=lambda: [0])

    def __call__(self, module: fx.GraphModule, inputs: list[Any]) -> Any:
        before = len(self.nodes)
        nodes = _computing(module)
        self.points += [before + each for each in _points(module, nodes)]
        self.nodes += nodes
        stretch = nodes[max(0, self.first - before) : max(0, self.end - before)]
        pieces: dict[Any, Any] = {}
        return lambda *args: _Split(module, stretch, self.stage, pieces).run(*args)


def _computing(module: fx.GraphModule) -> list[fx.Node]:
    return [n for n in module.graph.nodes if n.op not in ("placeholder", "get_attr", "output")]


def _points(module: fx.GraphModule, nodes: list[fx.Node]) -> Iterable[int]:
    """Behind which nodes the graph may be cut: where only tensors cross, and no region is open that
    could not be opened again.
    """
    at = {node: number for number, node in enumerate(nodes)}
    until = [-1]  # the last use of what is no tensor
    depth, derives = 0, True
    for number, node in enumerate(nodes):
        is_tensor = isinstance(node.meta.get("example_value"), torch._subclasses.FakeTensor)
        if not is_tensor and node.target is not _ENTERS:
            until.append(max((at.get(user, len(nodes) - 1) for user in node.users), default=-1))
        name = getattr(node.target, "__name__", "")
        depth += name.endswith(_BEGINS) - name.endswith(_ENDS)
        if name == "_set_grad_enabled":
            derives = bool(node.args[0])
        is_end = number == len(nodes) - 1
        if is_end or (depth <= 0 and derives and max(until) <= number):
            yield number + 1


class _Split(fx.Interpreter):
    """Runs a graph node by node, and the `stretch` of it compiled."""

    def __init__(
        self, module: fx.GraphModule, stretch: list[fx.Node], stage: str, pieces: dict[Any, Any]
    ) -> None:
        super().__init__(module)
        self._stretch, self._inside = stretch, set(stretch)
        self._stage, self._pieces = stage, pieces
        self._made: dict[fx.Node, Any] = {}

    def run_node(self, n: fx.Node) -> Any:
        if n not in self._inside:
            return super().run_node(n)
        if n is self._stretch[0]:
            self._made = self._compiled()
        return self._made.get(n)

    def _compiled(self) -> dict[fx.Node, Any]:
        """What others need of the stretch. Regions of autocast that reach into it are closed, as
        they are where the compiler begins, and opened again in it and behind it.
        """
        before = self._open(self._before())
        behind = self._open([*before, *self._stretch])
        enters = self._taken()
        values = [self.env[each] for each in enters]
        leaves = [
            each
            for each in self._stretch
            if isinstance(each.meta.get("example_value"), torch.Tensor)
            and any(user not in self._inside for user in each.users)
        ]
        for each in reversed(before):
            _EXITS(self.env[each])
        key = tuple(map(_kind, values))
        if key not in self._pieces:
            piece = self._piece(enters, leaves, before, behind)
            self._pieces[key] = Backend(self._stage, keep=False)(piece, values)
        made = dict(zip(leaves, self._pieces[key](*values), strict=True))
        for each in behind:
            opened: Any = each.target
            made[each] = self.env[each] = opened(*each.args, **each.kwargs)
        return made

    def _before(self) -> list[fx.Node]:
        nodes = list(self.module.graph.nodes)
        return nodes[: nodes.index(self._stretch[0])]

    def _open(self, nodes: list[fx.Node]) -> list[fx.Node]:
        """Regions of autocast that `nodes` begin and do not end."""
        ended = {each.args[0] for each in nodes if each.target is _EXITS}
        return [each for each in nodes if each.target is _ENTERS and each not in ended]

    def _taken(self) -> list[fx.Node]:
        needed = [each for node in self._stretch for each in node.all_input_nodes]
        return [
            each
            for each in dict.fromkeys(needed)
            if each not in self._inside and each.op != "get_attr" and each.target is not _ENTERS
        ]

    def _piece(
        self,
        enters: list[fx.Node],
        leaves: list[fx.Node],
        before: list[fx.Node],
        behind: list[fx.Node],
    ) -> fx.GraphModule:
        graph = fx.Graph()
        known = {each: graph.placeholder(each.name) for each in enters}

        def operand(each: fx.Node) -> fx.Node:
            if each not in known:  # an attribute: a constant, or a graph of a nested operator
                known[each] = graph.node_copy(each, operand)
            return known[each]

        for node in [*before, *self._stretch]:
            for each in node.all_input_nodes:
                operand(each)
            known[node] = graph.node_copy(node, operand)
        for each in reversed(behind):
            graph.call_function(_EXITS, (known[each],))
        graph.output(tuple(known[each] for each in leaves))
        for node in graph.nodes:  # its values are of another trace
            for name in ("example_value", "val"):
                node.meta.pop(name, None)
        return fx.GraphModule(self.module, graph)


def _kind(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), tuple(value.stride()), value.dtype, value.requires_grad
    return value


@contextlib.contextmanager
def regions_as_before() -> Iterator[None]:
    """Regions of autocast and without gradients that a graph began, and stopped in, are left."""

    def depth() -> int:
        torch.autocast_increment_nesting()
        now: int = torch.autocast_decrement_nesting()
        return now

    devices = [
        (each, torch.is_autocast_enabled(each), torch.get_autocast_dtype(each))
        for each in ("cpu", "cuda")
    ]
    derives, before = torch.is_grad_enabled(), depth()
    try:
        yield
    finally:
        for name, is_on, dtype in devices:
            torch.set_autocast_enabled(name, is_on)
            torch.set_autocast_dtype(name, dtype)
        for _ in range(depth() - before):
            torch.autocast_decrement_nesting()
        torch.clear_autocast_cache()
        torch.set_grad_enabled(derives)
