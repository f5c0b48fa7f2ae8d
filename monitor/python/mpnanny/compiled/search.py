"""Where a compiled graph parts from its own operators, run one by one on the same values: an
operator whose kernel is another by itself, or the shortest run of operators that are so when they
are compiled together.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves, tree_map

from .backends import Graph, copy_of
from .comparing import Parted, error_of, part
from .noise import Noise, draws
from .segments import Kept, Values, alone, calls, compiled, is_tensor, segment, writes

NOISES = 4
_CHUNK = 48  # operators that are compiled at once, each by itself


class Budget:
    """Time for a search; what is compiled takes seconds."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds

    @property
    def is_left(self) -> bool:
        return time.monotonic() < self._until

    def half(self) -> Budget:
        """For a search behind which others come."""
        return Budget(max(0.0, self._until - time.monotonic()) / 2)


@dataclass(slots=True)
class Found:
    """`nodes`: one operator, or those of a fusion, the last of which shows it."""

    graph: Graph
    nodes: list[fx.Node]
    parted: Parted | None
    errors: tuple[float, float] | None = None  # eager's and the compiled one's, against FP64
    way: str = ""  # kernel, fusion, decomposition
    others: list[str] = field(default_factory=list)


def outputs_part(graph: Graph) -> list[Parted]:
    """Whether what was compiled of it gave other outputs than its operators."""
    if graph.inputs is None or not graph.outputs:
        return []
    values = interpreted(graph.module, graph.inputs)
    output = next(each for each in graph.module.graph.nodes if each.op == "output")
    names = [
        each.name if isinstance(each, fx.Node) else None for each in tree_leaves(output.args[0])
    ]
    noisy = [interpreted(graph.module, graph.inputs, noise) for noise in noises()]
    found = []
    for name, held in zip(names, graph.outputs, strict=False):
        if name is None or not isinstance(held, torch.Tensor):
            continue
        phase = "backward" if graph.is_backward else "forward"
        each = part(name, phase, values[name], held, [one.get(name) for one in noisy])
        if each is not None:
            found.append(each)
    return found


def noises(count: int = NOISES) -> list[Noise]:
    return [Noise(1000 + at) for at in range(count)]


def interpreted(
    module: fx.GraphModule, inputs: Sequence[Any], noise: Noise | None = None
) -> Values:
    """The values of all of its nodes, on copies of `inputs`."""
    runs = Kept(module)
    given = [copy_of(each) for each in inputs]
    with torch.no_grad():
        torch.manual_seed(0)
        if noise is None:
            runs.run(*given)
        else:
            with noise:
                runs.run(*given)
    return runs.values


def find(graph: Graph, budget: Budget) -> Found | None:
    """Raises nothing of the compiler's: what cannot be compiled alone is left out."""
    assert graph.inputs is not None
    values = interpreted(graph.module, graph.inputs)
    values |= dict(
        zip(
            (each.name for each in graph.module.graph.nodes if each.op == "placeholder"),
            graph.inputs,
            strict=True,
        )
    )
    nodes = [each for each in calls(graph.module) if not writes(each)]
    if any(isinstance(each.meta.get("val"), torch.SymInt) for each in graph.module.graph.nodes):
        return None
    return _by_itself(graph, nodes, values, budget) or _together(graph, nodes, values, budget)


def _by_itself(graph: Graph, nodes: list[fx.Node], values: Values, budget: Budget) -> Found | None:
    """An operator whose own kernel gives something else."""
    tried = [each for each in nodes if _has_kernel(each)]
    for at in range(0, len(tried), _CHUNK):
        if not budget.is_left:
            return None
        some = tried[at : at + _CHUNK]
        made = _run(alone(graph.module, some), values, graph.is_backward)
        for node in some:
            parts = () if is_tensor(node) else node.users
            names = [node.name, *(user.name for user in parts)]
            for name in names:
                if name not in made or not isinstance(values.get(name), torch.Tensor):
                    continue
                if _is_same(made[name], values[name]):
                    continue
                found = _parted_of([node], name, graph, made, values)
                if found is not None:
                    return found
    return None


def _has_kernel(node: fx.Node) -> bool:
    target: Any = node.target
    return (
        isinstance(target, torch._ops.OpOverload)
        and not target.is_view
        and not draws(target)
        and bool(node.all_input_nodes)
    )


def _is_same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)


def _run(part_of: Any, values: Values, is_backward: bool) -> Values:
    """Empty where the compiler refuses."""
    module, enters, leaves = part_of
    if not leaves:
        return {}
    try:
        made = compiled(module, is_backward)([copy_of(values[each]) for each in enters])
    except Exception:
        return {}
    return dict(zip(leaves, made, strict=True))


def _parted_of(
    nodes: list[fx.Node], name: str, graph: Graph, made: Values, values: Values
) -> Found | None:
    """Whether a value of `nodes`, which were compiled alone, is further away than noise."""
    module, enters, leaves = segment(graph.module, _with_parts(nodes, name))
    if name not in leaves:
        return None
    at = leaves.index(name)
    inputs = [values[each] for each in enters]
    last = [each.name for each in module.graph.nodes if each.op == "call_function"]
    noisy = []
    for noise in noises():
        known = interpreted(module, inputs, noise)
        noisy.append(known.get(name if name in known else last[-1]))
    phase = "backward" if graph.is_backward else "forward"
    parted = part(name, phase, values[name], made[name], noisy)
    if parted is None:
        return None
    errors = None
    reference = _exact(module, inputs, at)
    if reference is not None:
        errors = (error_of(values[name], reference), error_of(made[name], reference))
    way = "kernel" if len(nodes) == 1 else "fusion"
    return Found(graph, nodes, parted, errors, way)


def _with_parts(nodes: list[fx.Node], name: str) -> list[fx.Node]:
    """With the node that takes `name` out of the results of the last one."""
    if any(each.name == name for each in nodes):
        return nodes
    return [*nodes, *(user for user in nodes[-1].users if user.name == name)]


def _exact(module: fx.GraphModule, inputs: list[Any], at: int) -> torch.Tensor | None:
    """In FP64, on these values. None where the operators do not take it."""

    def widened(value: Any) -> Any:
        is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
        return value.detach().double() if is_float else value

    try:
        with torch.no_grad():
            made = fx.Interpreter(module).run(*tree_map(widened, inputs))[at]
    except Exception:
        return None
    return made if isinstance(made, torch.Tensor) else None


def _together(graph: Graph, nodes: list[fx.Node], values: Values, budget: Budget) -> Found | None:
    """The shortest run of operators that part when they are compiled together: the first end, then
    the last beginning.
    """

    def tried(first: int, end: int) -> Found | None:
        some = nodes[first:end]
        made = _run(segment(graph.module, some), values, graph.is_backward)
        for node in some:
            name = node.name
            if name in made and not _is_same(made[name], values[name]):
                found = _parted_of(some, name, graph, made, values)
                if found is not None:
                    return found
        return None

    best = tried(0, len(nodes))
    if best is None:
        return None
    low, high = 0, len(nodes)  # (0, low) does not part, (0, high) does
    while high - low > 1 and budget.is_left:
        middle = (low + high) // 2
        found = tried(0, middle)
        if found is not None:
            best, high = found, middle
        else:
            low = middle
    first, last = 0, high - 1  # (first, high) parts
    while last - first > 1 and budget.is_left:
        middle = (first + last) // 2
        found = tried(middle, high)
        if found is not None:
            best, first = found, middle
        else:
            last = middle
    best.nodes = _needed(best.nodes)
    return best


def _needed(nodes: list[fx.Node]) -> list[fx.Node]:
    """Those that the last one is made of."""
    inside, wanted = set(nodes), {nodes[-1]}
    for node in reversed(nodes):
        if node in wanted:
            wanted |= {each for each in node.all_input_nodes if each in inside}
    return [each for each in nodes if each in wanted]


def find_decomposition(graphs: Sequence[Graph], budget: Budget) -> Found | None:
    """Of operators as AOTAutograd has them: the first that is not what Inductor takes it apart
    into.
    """
    from torch._inductor.decomposition import select_decomp_table

    table = select_decomp_table()
    for graph in graphs:
        if graph.inputs is None:
            continue
        values = interpreted(graph.module, graph.inputs)
        names = [each.name for each in graph.module.graph.nodes if each.op == "placeholder"]
        values |= dict(zip(names, graph.inputs, strict=True))
        for node in calls(graph.module):
            if not budget.is_left:
                return None
            if node.target not in table or writes(node) or draws(node.target):
                continue
            found = _taken_apart(graph, node, values, table)
            if found is not None:
                return found
    return None


def _taken_apart(graph: Graph, node: fx.Node, values: Values, table: Any) -> Found | None:
    from torch.fx.experimental.proxy_tensor import make_fx

    def held(value: Any) -> Any:
        known = values[value.name] if isinstance(value, fx.Node) else value
        return copy_of(known)

    args, kwargs = fx.map_arg((node.args, dict(node.kwargs)), held)
    target: Any = node.target
    flat = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]

    def called(*tensors: torch.Tensor) -> Any:
        given = iter(tensors)
        a, k = tree_map(
            lambda each: next(given) if isinstance(each, torch.Tensor) else each, (args, kwargs)
        )
        return target(*a, **k)

    try:
        with torch.no_grad():
            traced = make_fx(called, decomposition_table=table)(*map(copy_of, flat))
            made = tree_leaves(traced(*map(copy_of, flat)))
    except Exception:
        return None
    plain = tree_leaves(values[node.name])
    noisy = []
    for noise in noises():
        again = [copy_of(each) for each in flat]
        with torch.no_grad(), noise:
            noisy.append(tree_leaves(called(*again)))
    phase = "backward" if graph.is_backward else "forward"
    for at, (a, b) in enumerate(zip(plain, made, strict=False)):
        if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
            continue
        if _is_same(a, b):
            continue
        parted = part(node.name, phase, a, b, [each[at] for each in noisy])
        if parted is None:
            continue
        errors = None
        try:
            with torch.no_grad():
                wide = [e.double() if e.is_floating_point() else e for e in flat]
                exact = tree_leaves(called(*wide))[at]
            errors = (error_of(a, exact), error_of(b, exact))
        except Exception:  # an operator that does not take FP64
            errors = None
        return Found(graph, [node], parted, errors, "decomposition")
    return None
