"""Operators of ours that stand in the graphs of torch.compile.

Dynamo traces a module's forward hook with the module. trace() is what it finds there: it puts
`mpnanny::watch(table!, row, inputs, outputs)` behind the module and, through an autograd function
that passes its tensor on, `mpnanny::watch_gradient(row, gradient, output)` into the backward graph.
Both are calls of Python when the graph runs.

What keeps them there: the table is written as far as a compiler knows, so no watch() is dropped,
moved across another or run again by a checkpoint; and the numbers that each watch_gradient()
answers add up to the gradient of another tensor of ours. Nothing is read of either.

Which layer it is the memory of `row` tells, one of the graph's inputs: layers of the same code
share a graph as they do without us, and nothing is compiled again from step to step.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import nn
from torch.compiler import is_dynamo_compiling

_OLD = tuple(int(each) for each in torch.__version__.split(".")[:2]) < (2, 13)
_TENSORS = 16  # of one call, as the core looks for them
_PLAIN = (torch.Tensor, nn.Parameter)

_library: Any = None  # of the process, once it is needed
_defining = threading.Lock()
_heard: dict[int, Heard] = {}  # by the row's address


class Heard(Protocol):
    """Who hears of a layer when a graph runs. Nothing may be raised."""

    def ran(self, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None: ...

    def derived(self, output: int, gradient: torch.Tensor) -> None: ...


@dataclass
class Marks:
    """What a layer's operators are given. Of one device."""

    table: torch.Tensor
    ends: torch.Tensor  # where the gradients' answers go
    row: torch.Tensor  # of the layer alone


@dataclass
class InGraph:
    """A layer, as it is traced. `gradients`: those of its outputs, too."""

    gradients: bool
    marks: dict[torch.device, Marks]


def table_on(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Of all layers there: the first two of Marks."""
    ends = torch.zeros((), device=device, requires_grad=True)
    return _static(torch.zeros(1, dtype=torch.int32, device=device)), _static(ends)


def row_on(device: torch.device, heard: Heard) -> torch.Tensor:
    """To be kept until forget()."""
    row = _static(torch.zeros(1, dtype=torch.int32, device=device))
    _heard[row.data_ptr()] = heard
    return row


def forget(rows: Iterable[torch.Tensor]) -> None:
    """What still stands in graphs does nothing any more."""
    for row in rows:
        _heard.pop(row.data_ptr(), None)


def _static(tensor: torch.Tensor) -> torch.Tensor:
    """Stays where it is: CUDA graphs neither copy it nor refuse to write it."""
    torch._dynamo.mark_static_address(tensor)
    return tensor


# --- when a graph runs ---


def _watch(
    _table: torch.Tensor,
    row: torch.Tensor,
    inputs: list[torch.Tensor],
    outputs: list[torch.Tensor],
) -> None:
    heard = _heard.get(row.data_ptr())
    if heard is not None:
        heard.ran(inputs, outputs)


def _watch_gradient(row: torch.Tensor, gradient: torch.Tensor, output: int) -> torch.Tensor:
    heard = _heard.get(row.data_ptr())
    if heard is not None:
        heard.derived(output, gradient)
    return _answer(row, gradient)


def _answer(_row: torch.Tensor, gradient: torch.Tensor, *_: Any) -> torch.Tensor:
    return gradient.new_zeros((), dtype=torch.float32)


def define() -> None:
    """Once in a process, before anything is traced."""
    global _library, _can_be_watched
    with _defining:
        if _library is not None:
            return
        import torch._dynamo

        library = torch.library.Library("mpnanny", "FRAGMENT")
        library.define(
            "watch(Tensor(a!) table, Tensor row, Tensor[] inputs, Tensor[] outputs) -> ()"
        )
        library.define("watch_gradient(Tensor row, Tensor gradient, int output) -> Tensor")
        for device in ("CPU", "CUDA"):
            library.impl("watch", _watch, device)
            library.impl("watch_gradient", _watch_gradient, device)
        library.impl("watch", lambda *_: None, "Meta")
        library.impl("watch_gradient", _answer, "Meta")
        _can_be_watched = torch.compiler.assume_constant_result(_can_be_watched)
        _library = library


class _PassOn(torch.autograd.Function):
    """Its tensor as it is. A copy, which compilers leave out: what is a view here could not be
    written in place.
    """

    @staticmethod
    def forward(
        ctx: Any, value: torch.Tensor, _ends: torch.Tensor, row: torch.Tensor, output: int
    ) -> torch.Tensor:
        ctx.save_for_backward(row)
        ctx.output = output
        return value.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        (row,) = ctx.saved_tensors
        answer = torch.ops.mpnanny.watch_gradient.default(row, gradient, ctx.output)
        return gradient, answer, None, None


# --- while Dynamo traces ---


def _can_be_watched() -> bool:
    """Runs while Dynamo traces, and is a constant of the graph."""
    from torch._dynamo.symbolic_convert import InstructionTranslator

    try:
        translator: Any = InstructionTranslator.current_tx().output.root_tx
        if translator.export:
            return False
        # torch.compile(model) runs hooks of `model` itself outside of its graph and then compiles
        # them: each would be a graph of its own.
        if os.path.dirname(translator.f_code.co_filename) == os.path.dirname(__file__):
            return False
        parallel: Any = torch.nn.parallel.DistributedDataParallel
        if _OLD and parallel._get_active_ddp_module() is not None:
            return (
                False  # DDP's optimizer refuses graphs that have parts, as autograd functions are
            )
        level: Any = torch._C._functorch.maybe_current_level()
    except AttributeError:  # of another torch
        return False
    return level is None  # else tensors are wrapped, and no rule tells how


def trace(here: InGraph, args: Any, kwargs: Any, output: Any) -> Any:
    """What Dynamo traces in place of a module's hook: a new output, None for the one there is."""
    # Where it is not Dynamo (torch.export) a model is written down, and not trained.
    if not is_dynamo_compiling() or not torch.is_grad_enabled() or not _can_be_watched():
        return None
    outputs = _plain([output])
    marks = here.marks.get(outputs[0].device) if outputs else None
    if marks is None:
        return None
    inputs = _plain([*args, *_masks_last(kwargs)])
    torch.ops.mpnanny.watch.default(
        marks.table,
        marks.row,
        [each.detach() for each in inputs],
        [each.detach() for each in outputs],
    )
    if not here.gradients:
        return None
    if type(output) is torch.Tensor:
        return _pass_on(marks, inputs, output, 0)
    if type(output) is tuple:
        return tuple(
            [_pass_on(marks, inputs, each, n) for n, each in enumerate(output[:8])]
            + list(output[8:])
        )
    return None


def _pass_on(marks: Marks, inputs: list[torch.Tensor], value: Any, output: int) -> Any:
    """Not what shares memory with an input: written in place it must reach that."""
    if type(value) is not torch.Tensor or not value.requires_grad:
        return value
    if not value.is_floating_point() or value.layout is not torch.strided:
        return value
    base = value if value._base is None else value._base
    for each in inputs:
        if base is (each if each._base is None else each._base):
            return value
    return _PassOn.apply(value, marks.ends, marks.row, output)  # type: ignore[no-untyped-call]


def _masks_last(kwargs: dict[str, Any]) -> list[Any]:
    """As the hook of a module that is not compiled does."""
    masks = [value for name, value in kwargs.items() if "mask" in name]
    return [value for name, value in kwargs.items() if "mask" not in name] + masks


def _plain(values: Iterable[Any]) -> list[torch.Tensor]:
    """The tensors of floating point that can be read, two levels deep at most; on one device."""
    found: list[torch.Tensor] = []
    for value in values:
        if isinstance(value, dict):
            value = list(value.values())
        for each in value if isinstance(value, (tuple, list)) else (value,):
            for tensor in each if isinstance(each, (tuple, list)) else (each,):
                if (
                    type(tensor) in _PLAIN
                    and tensor.is_floating_point()
                    and tensor.layout is torch.strided
                    and (not found or tensor.device == found[0].device)
                    and len(found) < _TENSORS
                ):
                    found.append(tensor)
    return found


# --- whether this torch can do it ---


class _Hook:
    """As the monitor's own; keeps what it hears."""

    def __init__(self) -> None:
        device = torch.device("cpu")
        self.heard: set[str] = set()
        self.row = row_on(device, self)
        self._in_graph = InGraph(True, {device: Marks(*table_on(device), self.row)})

    def __call__(self, _module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        return trace(self._in_graph, args, kwargs, output)

    def ran(self, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
        self.heard.add("an output")

    def derived(self, output: int, gradient: torch.Tensor) -> None:
        self.heard.add("a gradient")


class _Double(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


@contextlib.contextmanager
def _uncounted() -> Iterator[None]:
    """What is compiled meanwhile is none of the program's: it did not use torch.compile by that."""
    counters: Any = torch._dynamo.utils.counters
    backends: Any = getattr(torch._dynamo.eval_frame, "cached_backends", {})
    before = {name: dict(each) for name, each in counters.items()}
    known = dict(backends)
    try:
        yield
    finally:
        counters.clear()
        for name, each in before.items():
            counters[name].update(each)
        backends.clear()
        backends.update(known)


@functools.cache
def unusable() -> str:
    """Why nothing in compiled graphs can be watched in this process, in words; "" if it can. Tries
    it once: what Dynamo cannot trace would end the training with an error.
    """
    if not hasattr(torch.library, "register_fake"):  # since torch 2.4
        return f"torch {torch.__version__} is too old for it, it needs 2.4"
    define()
    hook, tried = _Hook(), nn.Sequential(_Double())
    tried[0].register_forward_hook(hook, with_kwargs=True)
    try:
        with torch.enable_grad(), _uncounted():
            compiled: Any = torch._dynamo.optimize("aot_eager", nopython=True)(tried)
            compiled(nn.Parameter(torch.ones(1))).sum().backward()
    except Exception as error:
        return f"torch {torch.__version__} cannot trace it ({type(error).__name__})"
    finally:
        forget([hook.row])
    missing = {"an output", "a gradient"} - hook.heard
    return (
        f"torch {torch.__version__} leaves out {' and '.join(sorted(missing))}" if missing else ""
    )
