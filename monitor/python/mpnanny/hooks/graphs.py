"""Modules inside of what torch.compile makes: operators of ours that stand in its graphs.

Dynamo traces a module's forward hook with the module. trace() is what it finds there: it puts
`mpnanny::watch(table!, row, inputs, outputs)` behind the module and, through an autograd function
that passes its tensor on, `mpnanny::watch_gradient(row, gradient, output)` into the backward graph.
When the graph runs both are calls of Python, which leave at once unless the step is sampled, and
then do what the hook of a module does that is not compiled (forward.py).

What keeps them there: the table is written as far as a compiler knows, so no watch() is dropped,
moved across another or run again by a checkpoint; and the numbers that each watch_gradient()
answers add up to the gradient of another tensor of ours. Nothing is read of either.

Which layer it is the memory of `row` tells, one of the graph's inputs: layers of the same code
share a graph as they do without us, and nothing is compiled again from step to step.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ..base.notes import Notes
from ..operators.modes import compiles
from ..steps.listeners import StepListener
from ..steps.step import OpenStep

Forward = Callable[[list[torch.Tensor], list[torch.Tensor]], None]
Gradient = Callable[[int, torch.Tensor], None]

_TENSORS = 16  # of one call, as the core looks for them
_PLAIN = (torch.Tensor, nn.Parameter)

_library: Any = None  # of the process, once it is needed
_defining = threading.Lock()
_rows: dict[int, _Heard] = {}  # of the runs that are recording, by the row's address


def unusable() -> str:
    """Why nothing in compiled graphs can be watched in this process, in words; "" if it can."""
    if not hasattr(torch.library, "register_fake"):  # since torch 2.4
        return f"torch {torch.__version__} is too old for it, it needs 2.4"
    return ""


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


@dataclass
class _Heard:
    """Who hears of a layer. `forward(inputs, outputs)`, `gradient(output's number, gradient)`."""

    graphs: Graphs
    forward: Forward
    gradient: Gradient


class Graphs(StepListener):
    """What of one run stands in graphs."""

    name = "operators in compiled graphs"

    def __init__(self, notes: Notes) -> None:
        _define()
        self.trouble = notes.trouble
        self._note = notes.note
        self._shared: dict[torch.device, tuple[torch.Tensor, torch.Tensor]] = {}
        self._kept: list[torch.Tensor] = []  # rows: their addresses must not be another's

    def add(
        self, module: nn.Module, gradients: bool, forward: Forward, gradient: Gradient
    ) -> InGraph:
        """`forward` and `gradient` are called when `module` has run in a graph."""
        heard = _Heard(self, forward, gradient)
        tensors = itertools.chain(module.parameters(), module.buffers())
        devices = {torch.device("cpu"), *(each.device for each in tensors), *self._shared}
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            devices.add(torch.device("cuda", torch.cuda.current_device()))
        marks = {
            device: self._mark(device, heard)
            for device in devices
            if device.type in ("cpu", "cuda")
        }
        return InGraph(gradients, marks)

    def _mark(self, device: torch.device, heard: _Heard) -> Marks:
        if device not in self._shared:
            table = _static(torch.zeros(1, dtype=torch.int32, device=device))
            self._shared[device] = table, _static(torch.zeros((), device=device).requires_grad_())
        row = _static(torch.zeros(1, dtype=torch.int32, device=device))
        self._kept.append(row)
        _rows[row.data_ptr()] = heard
        return Marks(*self._shared[device], row)

    def watch_begins(self) -> None:
        """Graphs that were made without hooks are not made anew for hooks that come later."""
        self._note(
            "compiled modules are watched: values are kept that torch.compile would have fused"
            " away, so the bits may differ from those of the same training without it"
        )
        if not compiles():
            return
        forget = getattr(torch._dynamo, "reset_code_caches", None)
        if forget is None:
            self._note("modules that were compiled before are not watched, as this torch is old")
            return
        forget()
        self._note("what was compiled before is compiled again, so that its modules are watched")

    def backward_ended(self, step: OpenStep) -> None:
        for _, ends in self._shared.values():
            ends.grad = None  # it may lie in a CUDA graph's memory

    def run_ends(self) -> None:
        """What still stands in graphs does nothing any more."""
        for row in self._kept:
            _rows.pop(row.data_ptr(), None)

    def forked(self) -> None:
        self.run_ends()


def _static(tensor: torch.Tensor) -> torch.Tensor:
    """Stays where it is: CUDA graphs neither copy it nor refuse to write it."""
    torch._dynamo.mark_static_address(tensor)
    return tensor


# --- the operators ---


def _watch(
    _table: torch.Tensor,
    row: torch.Tensor,
    inputs: list[torch.Tensor],
    outputs: list[torch.Tensor],
) -> None:
    heard = _rows.get(row.data_ptr())
    if heard is None:
        return
    try:
        # Other objects: a graph writes into its buffers without a word to torch.
        with torch.enable_grad():  # off while a graph runs, and it is a training
            heard.forward([each.detach() for each in inputs], [each.detach() for each in outputs])
    except Exception as error:
        heard.graphs.trouble("a compiled module", error)


def _watch_gradient(row: torch.Tensor, gradient: torch.Tensor, output: int) -> torch.Tensor:
    heard = _rows.get(row.data_ptr())
    if heard is not None:
        try:
            heard.gradient(output, gradient.detach())
        except Exception as error:
            heard.graphs.trouble("a gradient in a compiled module", error)
    return _answer(row, gradient)


def _answer(_row: torch.Tensor, gradient: torch.Tensor, *_: Any) -> torch.Tensor:
    return gradient.new_zeros((), dtype=torch.float32)


def _define() -> None:
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

    translator = InstructionTranslator.current_tx().output.root_tx
    if translator is None or translator.export:
        return False
    if torch._C._functorch.maybe_current_level() is not None:
        return False  # its tensors are wrapped, and no rule tells how
    # torch.compile(model) runs hooks of `model` itself outside of its graph and then compiles them:
    # that would be a graph of its own.
    return os.path.dirname(translator.f_code.co_filename) != os.path.dirname(__file__)


def trace(here: InGraph, args: Any, kwargs: Any, output: Any) -> Any:
    """What Dynamo traces in place of a module's hook: a new output, None for the one there is."""
    if not torch.is_grad_enabled() or not _can_be_watched():
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
