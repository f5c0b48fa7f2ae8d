"""Backends of torch.compile that keep the graphs which they get, with the values that go through
them, and that can leave a part of the compiler out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from .segments import around, boxed_call, copied

MOST_BYTES = 1 << 29  # of values that are kept of one graph

# What the compiler is left out of step by step, from what is nearest to the eager program: Dynamo's
# graphs alone; AOTAutograd's, with its own derivatives and without mutations; these in simpler
# operators and after the passes over them; the kernels.
STAGES = ("dynamo", "autograd", "decompositions", "inductor")


@dataclass(slots=True)
class Graph:
    """One graph that was run. `number`: of the graph of Dynamo that it comes from."""

    number: int
    is_backward: bool
    module: fx.GraphModule
    inputs: list[Any] | None = None  # of its first run; None where they are too large
    outputs: list[Any] | None = None
    order: int = 0  # in which graphs were run

    @property
    def key(self) -> tuple[int, bool]:
        return (self.number, self.is_backward)


@dataclass(slots=True)
class Backend:
    """A backend that goes as far as `stage`. `alone`: of a graph the names of operators that run by
    themselves, as they are.
    """

    stage: str = "inductor"
    alone: dict[tuple[int, bool], set[str]] = field(default_factory=dict)
    keep: bool = True
    wrap: Callable[[fx.GraphModule, list[Any]], Any] | None = None  # runs a graph of an early stage
    graphs: list[Graph] = field(default_factory=list)
    dynamo: list[fx.GraphModule] = field(default_factory=list)

    def __call__(self, module: fx.GraphModule, inputs: list[Any]) -> Any:
        number = len(self.dynamo)
        self.dynamo.append(module)
        if self.stage == "dynamo":
            return self._early(Graph(number, False, module), boxed=False)
        if self.stage == "autograd":
            return self._derived(number, module, inputs)
        from torch._inductor.compile_fx import compile_fx

        def inner(traced: fx.GraphModule, examples: Any, **options: Any) -> Any:
            graph = Graph(number, bool(options.get("is_backward")), copied(traced))
            return self._kept(graph, self._made(graph, traced, examples, options))

        return compile_fx(module, inputs, inner_compile=inner)

    def _derived(self, number: int, module: fx.GraphModule, inputs: list[Any]) -> Any:
        from torch._dynamo.backends.common import aot_autograd

        def compiler(is_backward: bool) -> Any:
            def compiled(traced: fx.GraphModule, examples: Any) -> Any:
                return self._early(Graph(number, is_backward, copied(traced)), boxed=True)

            return compiled

        return aot_autograd(
            fw_compiler=compiler(False),
            bw_compiler=compiler(True),
            inference_compiler=compiler(False),
            keep_inference_input_mutations=True,
        )(module, inputs)

    def _early(self, graph: Graph, boxed: bool) -> Any:
        plainly = self._plainly(graph.module)
        if not boxed:
            self.graphs.append(graph)
            return lambda *args: plainly(list(args))
        return self._kept(graph, boxed_call(plainly))

    def _plainly(self, module: fx.GraphModule) -> Callable[[list[Any]], Any]:
        """Operator by operator."""
        wrap = self.wrap
        if wrap is not None:
            return lambda args: wrap(module, args)
        return lambda args: fx.Interpreter(module).run(*args)

    def _made(self, graph: Graph, traced: fx.GraphModule, examples: Any, options: Any) -> Any:
        from torch._inductor.compile_fx import compile_fx_inner

        if self.stage == "decompositions":
            return boxed_call(self._plainly(graph.module))
        alone = self.alone.get(graph.key)
        if alone:
            return around(graph.module, alone, graph.is_backward)
        return compile_fx_inner(traced, examples, **options)

    def _kept(self, graph: Graph, call: Any) -> Any:
        """`call`, and its first arguments and results are remembered."""
        if not self.keep:
            return call
        graphs = self.graphs

        def kept(args: list[Any]) -> Any:
            first = graph.inputs is None and graph.outputs is None
            if first and _bytes(args) <= MOST_BYTES:
                graph.inputs = [copy_of(each) for each in args]
            made = call(args)
            if first:
                graph.order = len(graphs)
                graphs.append(graph)
                graph.outputs = [copy_of(each) for each in made] if graph.inputs is not None else []
            return made

        kept._boxed_call = True  # type: ignore[attr-defined]
        return kept


def copy_of(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    if value.layout is not torch.strided or any(each == 0 for each in value.stride()):
        return value.detach().clone()
    made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    return made.copy_(value.detach())


def _bytes(values: list[Any]) -> int:
    return sum(
        each.numel() * each.element_size() for each in values if isinstance(each, torch.Tensor)
    )
