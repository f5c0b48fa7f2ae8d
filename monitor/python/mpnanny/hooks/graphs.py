"""The modules of one run that torch.compile runs: what is done when the operators in its graphs
(graph_operators.py) tell of them.

On the CPU that is what a module's hook does that is not compiled (forward.py), and on a device what
device_table.py measures. Between samples it is nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from .. import _core
from ..base import later
from ..base.device_kernels import kernels_of_process
from ..base.later import Later, Parcel
from ..operators.modes import compiles, own_work
from ..steps.context import RunContext
from ..steps.figures import readable
from ..steps.late_steps import DeviceSteps
from ..steps.listeners import StepListener
from ..steps.step import Figure, OpenStep
from .device_table import DeviceTable, Place, Sent
from .graph_operators import InGraph, Marks, define, forget, row_on, table_on

Forward = Callable[[list[torch.Tensor], list[torch.Tensor]], None]
Gradient = Callable[[int, torch.Tensor], None]

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes

_KEPT = 16  # tensors that are known again

DEVICES = ("cpu", "cuda")  # that the operators are made for

_closed: list[DeviceTable] = []  # of runs that are over: CUDA graphs hold their memory


class _Layer:
    """On one device. `forward(inputs, outputs)`, `gradient(output's number, gradient)`: take what a
    graph runs, but not what it runs while a CUDA graph is made of it.
    """

    def __init__(
        self, graphs: Graphs, number: int, module: nn.Module, forward: Forward, gradient: Gradient
    ) -> None:
        self._graphs = graphs
        self._number = number
        self._module = module
        self._forward = forward
        self._gradient = gradient

    def ran(self, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
        graphs = self._graphs
        if graphs.leave_alone(False):
            return
        # Other objects: a graph writes into its buffers without a word to torch.
        inputs, outputs = [each.detach() for each in inputs], [each.detach() for each in outputs]
        try:
            if graphs.is_capturing(outputs[0].device):
                graphs.ran_on_device(self._number, self._module, inputs, outputs)
                return
            with torch.enable_grad():  # off while a graph runs, and it is a training
                self._forward(inputs, outputs)
        except Exception as error:
            graphs.trouble("a compiled module", error)

    def derived(self, output: int, gradient: torch.Tensor) -> None:
        graphs = self._graphs
        if graphs.leave_alone(True):
            return
        gradient = gradient.detach()
        try:
            if graphs.is_capturing(gradient.device):
                graphs.derived_on_device(self._number, output, gradient)
            else:
                self._gradient(output, gradient)
        except Exception as error:
            graphs.trouble("a gradient in a compiled module", error)


class _Factor:
    """What a gradient is multiplied by, on its way from a device where it comes from there."""

    def __init__(self, value: Figure) -> None:
        self._known = None if isinstance(value, Later) else value
        self._parcel = Parcel(value.tensor) if isinstance(value, Later) else None

    def value(self) -> Any:
        """Once the step has arrived."""
        return self._known if self._parcel is None else self._parcel.value.item()


@dataclass
class _Captured:
    """What a CUDA graph measures: a call, or, of an output with that number, the gradient."""

    layer: int
    table: DeviceTable
    inputs: list[Place]
    outputs: list[Place]
    own: list[Place]
    gradient: int | None = None


class Graphs(StepListener):
    """What of one run stands in graphs."""

    name = "operators in compiled graphs"

    def __init__(self, run: RunContext, device: DeviceSteps, trace_interval: int) -> None:
        define()
        self.trouble = run.notes.trouble
        self._notes = run.notes
        self._core = run.core
        self._state = run.state
        self._device = device
        self._interval = trace_interval
        self._shared: dict[torch.device, tuple[torch.Tensor, torch.Tensor]] = {}
        self._rows: list[torch.Tensor] = []
        self._tables: dict[torch.device, DeviceTable] = {}
        self._captured: list[_Captured] = []
        self._sampled = False
        self._seen: dict[tuple[Any, ...], torch.Tensor] = {}  # of the step

    def add(
        self,
        layer: int,
        module: nn.Module,
        gradients: bool,
        forward: Forward,
        gradient: Gradient,
    ) -> InGraph:
        """`forward` and `gradient` are called when `module` has run in a graph."""
        tensors = itertools.chain(module.parameters(), module.buffers())
        devices = {torch.device("cpu"), *(each.device for each in tensors), *self._shared}
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            devices.add(torch.device("cuda", torch.cuda.current_device()))
        heard = _Layer(self, layer, module, forward, gradient)
        marks = {device: self._mark(device, heard) for device in devices if device.type in DEVICES}
        return InGraph(gradients, marks)

    def _mark(self, device: torch.device, heard: _Layer) -> Marks:
        if device not in self._shared:
            self._shared[device] = table_on(device)
            if device.type in later.DEVICES - later.HOST:
                self._tables[device] = DeviceTable(device, kernels_of_process(), self._notes)
        row = row_on(device, heard)
        self._rows.append(row)
        return Marks(*self._shared[device], row)

    def watch_begins(self) -> None:
        """Graphs that were made without hooks are not made anew for hooks that come later."""
        self._notes.note(
            "compiled modules are watched: values are kept that torch.compile would have fused"
            " away, so the bits may differ from those of the same training without it"
        )
        if not compiles():
            return
        reset: Any = getattr(torch._dynamo, "reset_code_caches", None)
        if reset is None:
            self._notes.note("what was compiled before is not watched: this torch is too old")
            return
        reset()
        self._notes.note(
            "what was compiled before is compiled again, so that its modules are watched"
        )

    def run_ends(self) -> None:
        forget(self._rows)
        for table in self._tables.values():
            table.open(False)
            if table.has_captured():
                _closed.append(table)

    def forked(self) -> None:
        forget(self._rows)

    def seen(self, tensor: torch.Tensor) -> torch.Tensor:
        """The one that was met in this step in the same memory with the same values, or `tensor`:
        what one module gives and the next one takes is one tensor. Of the CPU.
        """
        with torch.no_grad(), own_work():
            bits = tensor.view(_INTEGERS[tensor.element_size()]).sum(dtype=torch.int64).item()
        key = (tensor.data_ptr(), bits, tensor.shape, tensor.stride(), tensor.dtype)
        found = self._seen.pop(key, tensor)
        self._seen[key] = found  # the newest one last
        if len(self._seen) > _KEPT:
            del self._seen[next(iter(self._seen))]
        return found

    # --- steps on a device ---

    def step_begins(self, step: OpenStep) -> None:
        self._sampled = self._state.sampling
        for table in self._tables.values():
            table.open(self._sampled)  # as was expected, if its forward pass has run
        if self._state.on_device and self._sampled:
            self._device.also(partial(self._tell_captured, self._sent(), None))

    def step_ends(self, step: OpenStep) -> None:
        """Without blocks a CUDA graph's forward pass comes before its step begins."""
        number = step.number + 1
        soon = number % self._interval == 0 or _core.dense(self._core)
        for table in self._tables.values():
            if self._sampled:
                table.send()
            table.open(soon)
        self._sampled = False
        self._seen.clear()

    def leave_alone(self, is_gradient: bool) -> bool:
        """Whether nobody wants to know what runs now: mostly so, and asked by each operator."""
        if self._state.sampling or self._tables:
            return False
        step = self._state.open  # without one, or after a backward pass, this may be the next one's
        return is_gradient or (step is not None and not step.backwards)

    def is_capturing(self, device: torch.device) -> bool:
        """Whether a CUDA graph is made of what runs there now."""
        table = self._tables.get(device)
        if table is None:
            return False
        if table.is_capturing():
            return True
        table.prepare()
        return False

    def ran_on_device(
        self,
        layer: int,
        module: nn.Module,
        inputs: list[torch.Tensor],
        outputs: list[torch.Tensor],
    ) -> None:
        """In a sampled step, or while a CUDA graph is made."""
        table = self._tables.get(outputs[0].device)
        if table is None:
            return
        given, made, own = (table.read(each) for each in (inputs, outputs, _own(module)))
        if table.is_capturing():
            self._captured.append(_Captured(layer, table, given, made, own))
        else:
            self._device.also(partial(_tell, layer, given, made, own, table.sent))

    def derived_on_device(self, layer: int, slot: int, gradient: torch.Tensor) -> None:
        """`slot`: also of the call; while a CUDA graph is made the number of the output."""
        table = self._tables.get(gradient.device)
        if table is None:
            return
        places = table.read([gradient])
        if not places:
            return
        if table.is_capturing():
            self._captured.append(_Captured(layer, table, [], places, [], slot))
            return
        factor = _Factor(self._state.inverse_scale())
        self._device.also(partial(_tell_gradient, layer, slot, places[0], table.sent, factor))

    def _sent(self) -> dict[torch.device, Sent]:
        return {device: table.sent for device, table in self._tables.items()}

    def _tell_captured(
        self, sent: dict[torch.device, Sent], factor: _Factor | None, core: Any
    ) -> None:
        """Calls; with a factor, gradients."""
        for each in self._captured:
            own = sent[each.table.device]
            if each.gradient is None:
                if factor is None:
                    _tell(each.layer, each.inputs, each.outputs, each.own, own, core)
            elif factor is not None:
                _tell_gradient(each.layer, each.gradient, each.outputs[0], own, factor, core)

    def backward_ended(self, step: OpenStep) -> None:
        if self._state.on_device and self._sampled and self._captured:
            factor = _Factor(self._state.inverse_scale())
            self._device.also(partial(self._tell_captured, self._sent(), factor))
        for _, ends in self._shared.values():
            ends.grad = None  # it may lie in a CUDA graph's memory


def _own(module: nn.Module) -> list[torch.Tensor]:
    """A leaf's parameters."""
    held = () if next(module.children(), None) is not None else module._parameters.values()
    return [tensor for each in held if (tensor := readable(each)) is not None]


def _readings(places: list[Place], sent: Sent) -> list[Any]:
    return [found for each in places if (found := each.reading(sent)) is not None]


def _tell(
    layer: int,
    inputs: list[Place],
    outputs: list[Place],
    own: list[Place],
    sent: Sent,
    core: Any,
) -> None:
    """The core hears of a call as of one that was not compiled."""
    made = _readings(outputs, sent)
    if not made:  # of a CUDA graph that did not run
        return
    given = _readings(inputs, sent)
    if core.observe(layer, given, made):
        core.explain(layer, given, made, _readings(own, sent))


def _tell_gradient(
    layer: int, slot: int, place: Place, sent: Sent, factor: _Factor, core: Any
) -> None:
    reading = place.reading(sent)
    if reading is not None:
        core.activation_gradient(layer, slot, factor.value(), reading)
