"""Parts of a graph, compiled by themselves and run on the values that it really had."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_flatten, tree_unflatten

Values = dict[str, Any]  # of nodes, by their names
Part = tuple[fx.GraphModule, list[str], list[str]]  # a graph, what goes in, what comes out

_getitem = operator.getitem


def boxed_call(call: Callable[[list[Any]], Any]) -> Any:
    """As AOTAutograd calls what was compiled: with a list of arguments, which it may empty."""

    def boxed(args: list[Any]) -> Any:
        taken = list(args)
        args.clear()
        with torch.no_grad():
            return call(taken)

    boxed._boxed_call = True  # type: ignore[attr-defined]
    return boxed


def copied(module: fx.GraphModule) -> fx.GraphModule:
    """Its own graph on the same attributes: passes of the compiler write into theirs."""
    graph = fx.Graph()
    out = graph.graph_copy(module.graph, {}, return_output_node=True)
    if isinstance(out, tuple):
        value, node = out
        made = graph.output(value)
        made.meta = dict(node.meta)
    return fx.GraphModule(module, graph)


class Kept(fx.Interpreter):
    """Runs a graph and keeps the value of every node."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.values: Values = {}

    def run_node(self, n: fx.Node) -> Any:
        made = super().run_node(n)
        self.values[n.name] = made
        return made


def calls(module: fx.GraphModule) -> list[fx.Node]:
    """Its operators, in order."""
    return [each for each in module.graph.nodes if each.op in ("call_function", "get_attr")]


def writes(node: fx.Node) -> bool:
    """Whether it changes an operand, as what brings a new state back into an input does."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and bool(schema.is_mutable)


def segment(module: fx.GraphModule, nodes: Sequence[fx.Node]) -> Part:
    """`nodes` of `module` alone: the graph, the names of what goes in and of what others need."""
    inside = set(nodes)
    graph = fx.Graph()
    known: dict[fx.Node, fx.Node] = {}
    enters: list[str] = []
    for node in nodes:
        for each in node.all_input_nodes:
            if each not in inside and each not in known:
                made = graph.placeholder(each.name)
                made.meta = dict(each.meta)
                known[each] = made
                enters.append(each.name)
    for node in nodes:
        known[node] = graph.node_copy(node, lambda each: known[each])
        known[node].name = node.name
    leaves = [
        node
        for node in nodes
        if is_tensor(node) and (not node.users or any(each not in inside for each in node.users))
    ]
    graph.output([known[each] for each in leaves])
    made_module = fx.GraphModule(module, graph)
    output = next(each for each in made_module.graph.nodes if each.op == "output")
    output.meta["user_visible_output_idxs"] = list(range(len(leaves)))
    return made_module, enters, [each.name for each in leaves]


def is_tensor(node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)


def alone(module: fx.GraphModule, nodes: Sequence[fx.Node]) -> Part:
    """A graph in which each of `nodes` gets its operands from outside: none is fused with what
    made them. The results of several outputs are taken apart as the graph does.
    """
    graph = fx.Graph()
    enters: list[str] = []
    placed: dict[fx.Node, fx.Node] = {}
    leaves: list[fx.Node] = []
    names: list[str] = []

    def operand(each: fx.Node) -> fx.Node:
        if each not in placed:
            placed[each] = graph.placeholder(each.name)
            placed[each].meta = dict(each.meta)
            enters.append(each.name)
        return placed[each]

    for node in nodes:
        for each in node.all_input_nodes:
            operand(each)
    for node in nodes:
        made = graph.node_copy(node, operand)
        if is_tensor(node):
            leaves.append(made)
            names.append(node.name)
            continue
        for user in node.users:
            if user.target is _getitem and is_tensor(user):
                part = graph.call_function(_getitem, (made, user.args[1]))
                part.meta = dict(user.meta)
                leaves.append(part)
                names.append(user.name)
    graph.output(leaves)
    made_module = fx.GraphModule(module, graph)
    output = next(each for each in made_module.graph.nodes if each.op == "output")
    output.meta["user_visible_output_idxs"] = list(range(len(leaves)))
    return made_module, enters, names


def compiled(module: fx.GraphModule, is_backward: bool = False) -> Any:
    """By Inductor; called with a list. Raises what the compiler raises."""
    from torch._dynamo.utils import detect_fake_mode
    from torch._guards import TracingContext, tracing
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.utils import BoxedBool
    from torch._inductor.virtualized import V

    module = copied(module)
    examples = [each.meta.get("val") for each in module.graph.nodes if each.op == "placeholder"]
    fake = detect_fake_mode(examples)
    if fake is None:
        fake = next(
            (
                each.meta["val"].fake_mode
                for each in module.graph.nodes
                if hasattr(each.meta.get("val"), "fake_mode")
            ),
            None,
        )
    with V.set_fake_mode(fake), tracing(TracingContext(fake)):
        return compile_fx_inner(
            module,
            examples,
            static_input_idxs=(),
            cudagraphs=BoxedBool(False),
            is_backward=is_backward,
            is_inference=not is_backward,
        )


def placed(value: Any, like: Any) -> Any:
    """With the strides that the graph says: what was compiled may lay it out otherwise."""
    if not isinstance(value, torch.Tensor) or not isinstance(like, torch.Tensor):
        return value
    try:
        strides = tuple(int(each) for each in like.stride())
        if tuple(value.stride()) == strides or any(each == 0 for each in strides):
            return value
        made = torch.empty_strided(value.shape, strides, dtype=value.dtype, device=value.device)
        return made.copy_(value)
    except (RuntimeError, TypeError):
        return value


def around(module: fx.GraphModule, names: set[str], is_backward: bool) -> Any:
    """The graph with the operators `names` as they are: what lies between them is compiled."""
    groups: list[tuple[bool, list[fx.Node]]] = []
    for node in calls(module):
        by_itself = node.name in names
        if groups and groups[-1][0] == by_itself:
            groups[-1][1].append(node)
        else:
            groups.append((by_itself, [node]))
    parts = []
    for by_itself, nodes in groups:
        if not by_itself and not any(is_tensor(each) for each in nodes):
            by_itself = True
        part, enters, leaves = segment(module, nodes)
        call = (
            boxed_call(_interpreted(part))
            if by_itself or not leaves
            else compiled(part, is_backward)
        )
        parts.append((call, enters, leaves))
    output = next(each for each in module.graph.nodes if each.op == "output")
    inputs = [each.name for each in module.graph.nodes if each.op == "placeholder"]
    likes = {each.name: each.meta.get("val") for each in module.graph.nodes}
    flat, spec = tree_flatten(output.args[0])

    def run(args: list[Any]) -> Any:
        values: Values = dict(zip(inputs, args, strict=True))
        for call, enters, leaves in parts:
            made = call([values[each] for each in enters])
            for name, value in zip(leaves, made, strict=True):
                values[name] = placed(value, likes.get(name))
        return tree_unflatten(
            [values[each.name] if isinstance(each, fx.Node) else each for each in flat], spec
        )

    return boxed_call(run)


def _interpreted(module: fx.GraphModule) -> Any:
    return lambda args: fx.Interpreter(module).run(*args)
