"""Forward hooks: hand each module's inputs and output to the core."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from threading import get_ident
from typing import Any

import torch
from torch import nn
from torch.compiler import is_compiling

from ..model.buffers import broken_buffers
from ..model.functional import plain
from ..model.parts import FoundModule
from ..steps.context import RunContext
from ..steps.late_steps import DeviceSteps
from ..steps.life import Steps
from ..steps.reading import graph_task_id
from ..steps.state import RunState
from ..steps.thread import FORWARD
from .graph_operators import trace
from .graphs import Graphs

# As the core counts them, so that a gradient has the slot of its output.
SLOTS_PER_CALL = 256
SAMPLED_CALLS = 1024

_NOT_GIVEN = object()


class _Hook:
    """What torch keeps inside the model, and copies, pickles and saves with it.

    A copy is another model, which is not watched: it gets a function of the standard library that
    does nothing in the hook's place, so that a saved model loads where mpnanny is not installed.

    torch asks whether a hook wants keyword arguments after it has found the hook: where another
    thread removes it in between it comes without them, and with its last argument too early.
    """

    __torch_unserializable__ = True  # a tensor with it is saved without a warning

    def __deepcopy__(self, _memo: Any) -> Callable[..., None]:
        return contextlib.nullcontext().__exit__

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (contextlib.nullcontext(), "__exit__")


class _EnterModel(_Hook):
    """`whole`: this is the model and not one of several that are trained together."""

    def __init__(self, hooks: ForwardHooks, whole: bool) -> None:
        self._hooks = hooks
        self._whole = whole

    def __call__(self, module: nn.Module, args: Any, kwargs: Any = None) -> None:
        if not is_compiling() and kwargs is not None:
            self._hooks.enter_model(module, args, kwargs, self._whole)


class _LeaveModel(_Hook):
    def __init__(self, hooks: ForwardHooks, whole: bool) -> None:
        self._hooks = hooks
        self._whole = whole

    def __call__(self, _module: nn.Module, _args: Any, output: Any) -> None:
        if not is_compiling():
            failed = sys.exc_info()[0] is not None
            self._hooks.leave_model(output, failed, self._whole)


class _Forward(_Hook):
    """Of one module; runs at each of its calls, so what it needs is at hand."""

    def __init__(
        self,
        hooks: ForwardHooks,
        state: RunState,
        observe: Callable[[int, Any, Any], bool],
        layer: int,
        leaf: bool,
        gradients: bool,
    ) -> None:
        self._hooks = hooks
        self._state = state
        self._thread = state.thread
        self._observe = observe
        self._layer = layer
        self._leaf = leaf
        self._gradients = gradients
        self._step = -1
        self._calls = 0  # within that step, as far as it is sampled

    def __call__(self, module: nn.Module, args: Any, kwargs: Any, output: Any = _NOT_GIVEN) -> None:
        state = self._state
        if is_compiling() or not state.recording or graph_task_id() != -1:
            return
        if get_ident() != self._thread.ident:
            if state.open is not None:
                if torch.is_grad_enabled() and state.trains(module):
                    self._thread.elsewhere.add(self._layer)
                return
        elif state.idle:
            return
        if output is _NOT_GIVEN:
            return
        if state.open is None:  # a part of the model that is called by itself
            if state.blocks_used or not torch.is_grad_enabled() or not state.trains(module):
                return
            self._hooks.part_runs()
            if get_ident() != self._thread.ident:
                return  # another part was faster
        try:
            inputs = _together(args, kwargs) if kwargs else args
            if type(output) is not torch.Tensor and hasattr(output, "__dataclass_fields__"):
                output = [getattr(output, field) for field in output.__dataclass_fields__]
            if state.functional:
                inputs, output = unwrapped(inputs), unwrapped(output)
            if (gather := state.gather) is not None:
                if gather(self._layer, self._leaf, inputs, output):
                    self._hooks.ask_device()
            elif self._observe(self._layer, inputs, output):
                self._hooks.broke(self._layer, self._leaf, module, args, kwargs, inputs, output)
            if state.sampling and self._gradients and not state.functional:
                self._watch_gradients(output)
        except Exception as error:
            self._hooks.trouble("a forward hook", error)

    def _watch_gradients(self, output: Any) -> None:
        if self._step != self._state.number:
            self._step, self._calls = self._state.number, 0
        first = self._calls * SLOTS_PER_CALL
        self._calls += 1
        if self._calls > SAMPLED_CALLS:
            return
        outputs = output if isinstance(output, (tuple, list)) else (output,)
        for slot, tensor in enumerate(outputs[:8], first):
            # A hook on a leaf (a parameter that is handed out) would stay for as long as it lives.
            if isinstance(tensor, torch.Tensor) and tensor.grad_fn is not None:
                tensor.register_hook(_Gradient(self._state, self._hooks.trouble, self._layer, slot))


class _ForwardInGraph(_Forward):
    """As well where torch.compile runs the module: Dynamo traces it, and what it puts into the
    graph calls ran() and derived().
    """

    def __init__(self, module: nn.Module, graphs: Graphs, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._module = module
        self._graphs = graphs
        self._graph_step = -1
        self._graph_calls = 0  # within that step
        # Of each output those calls whose gradients have not come; the last call's come first.
        self._underived: dict[int, list[int]] = {}
        self._in_graph = graphs.add(self._layer, module, self._gradients, self.ran, self.derived)

    def __call__(self, module: nn.Module, args: Any, kwargs: Any, output: Any = _NOT_GIVEN) -> Any:
        if is_compiling():
            return trace(self._in_graph, args, kwargs, output)
        return super().__call__(module, args, kwargs, output)

    def ran(self, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
        state = self._state
        if not state.recording or graph_task_id() != -1:
            return
        self._hooks.graph_runs(self._module)
        step = state.open
        if step is None:
            return
        here = get_ident() == self._thread.ident
        if here and not state.sampling:
            return
        if here and state.on_device:
            self._graphs.ran_on_device(self._layer, self._module, inputs, outputs)
        else:
            seen = self._graphs.seen
            given, made = tuple(map(seen, inputs)), list(map(seen, outputs))
            super().__call__(self._module, given, {}, made)
        self._count(step.number)

    def _count(self, step: int) -> None:
        if self._graph_step != step:
            self._graph_step, self._graph_calls = step, 0
            self._underived.clear()
        if self._graph_calls < SAMPLED_CALLS:
            for index in range(8):  # of which gradients are watched
                self._underived.setdefault(index, []).append(self._graph_calls)
        self._graph_calls += 1

    def derived(self, index: int, gradient: torch.Tensor) -> None:
        state = self._state
        if not state.sampling or self._graph_step != state.number:
            return
        calls = self._underived.get(index)
        if not calls:
            return
        slot = calls.pop() * SLOTS_PER_CALL + index
        if not state.on_device:
            _Gradient(state, self._hooks.trouble, self._layer, slot)(gradient)
        elif state.recording and state.thread.is_here():
            self._graphs.derived_on_device(self._layer, slot, gradient)


class _Gradient(_Hook):
    """Runs in the thread of the backward pass, or in one of autograd's that works for it."""

    def __init__(
        self, state: RunState, trouble: Callable[[str, Exception], None], layer: int, slot: int
    ) -> None:
        self._state = state
        self._trouble = trouble
        self._layer = layer
        self._slot = slot
        self._step = state.number

    def __call__(self, gradient: torch.Tensor) -> None:
        state = self._state
        if not state.recording or state.number != self._step or not state.thread.is_here():
            return
        try:
            state.reader.activation_gradient(
                self._layer, self._slot, state.inverse_scale(), gradient
            )
        except Exception as error:
            self._trouble("a gradient hook", error)


def unwrapped(value: Any) -> Any:
    """Without what torch.func puts around tensors."""
    if isinstance(value, torch.Tensor):
        return plain(value)
    if isinstance(value, (tuple, list)):
        return tuple(plain(each) if isinstance(each, torch.Tensor) else each for each in value)
    return value


def _together(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """All inputs of a call, masks last: the core takes -inf for a fault in the first one only."""
    masks = [value for name, value in kwargs.items() if "mask" in name]
    if not masks:
        return (*args, *kwargs.values())
    return (*args, *(value for name, value in kwargs.items() if "mask" not in name), *masks)


class ForwardHooks:
    """Installed once and kept: putting them on for a sampled step only would recompile compiled
    models. `gradients`: hooks on the outputs of leaf modules, in sampled steps. `graphs`: takes the
    modules that torch.compile runs; without it they are left alone.
    """

    def __init__(
        self,
        run: RunContext,
        steps: Steps,
        device: DeviceSteps,
        gradients: bool,
        graphs: Graphs | None = None,
    ) -> None:
        self.trouble = run.notes.trouble
        self._core = run.core
        self._state = run.state
        self._names = run.names
        self._record = run.record
        self._events = run.events
        self._steps = steps
        self._device = device
        self._gradients = gradients
        self._graphs = graphs
        self._looked_at = (-1, 0)  # a step and the number of its backward passes
        self._handles: list[Any] = []
        self._watched: list[tuple[int, FoundModule]] = []
        # Within TransformerEncoderLayers, whose fast path in an evaluation is for models without
        # hooks only; they are off while there is one.
        self._avoided: dict[int, Any] = {}  # layer -> its handle, None while it is off
        self._evaluating: set[int] = set()  # threads
        self._changes = threading.Lock()  # of hooks, which several threads take off and put on

    def install(self, modules: Iterable[FoundModule]) -> list[str]:
        """Reports to the core those of `modules` that it does not know yet, in their order, and
        listens to all; the names of those that it no longer takes.
        """
        known = {found.name: layer for layer, found in self._watched}
        heard = {id(found.module) for _, found in self._watched}
        late: list[str] = []
        for found in modules:
            if id(found.module) in heard:
                continue
            kind = self._record.type(type(found.module))
            layer = known.get(found.name, 0) or self._names.add(
                found.name, kind, found.source, found.numel, found.leaf
            )
            if not layer:
                late.append(found.name)
                continue
            self._watched.append((layer, found))
            self._listen(layer, found)
        return late

    def _listen(self, layer: int, found: FoundModule) -> None:
        module, keep = found.module, self._handles.append
        if found.leaf:
            self._device.modules[layer] = module
        if found.root:
            enter = _EnterModel(self, not found.name)
            keep(module.register_forward_pre_hook(enter, with_kwargs=True))
        gradients = found.leaf and self._gradients
        told = (self, self._state, self._core.observe, layer, found.leaf, gradients)
        if self._graphs is None:
            hook = _Forward(*told)
        else:
            hook = _ForwardInGraph(module, self._graphs, *told)
        handle = module.register_forward_hook(hook, with_kwargs=True)
        if not found.root and found.has_fast_path:
            self._avoided[layer] = handle
        else:
            keep(handle)
        if found.root:
            leave = _LeaveModel(self, not found.name)
            keep(module.register_forward_hook(leave, always_call=True))

    def remove(self) -> None:
        with self._changes:
            for handle in [*self._handles, *self._avoided.values()]:
                if handle is not None:
                    handle.remove()
            self._handles.clear()
            self._avoided.clear()

    @contextlib.contextmanager
    def off(self) -> Iterator[None]:
        """Without hooks for a moment: torch.jit.script would compile them."""
        installed = bool(self._handles)
        self.remove()
        try:
            yield
        finally:
            if installed and self._state.recording:
                for layer, found in self._watched:
                    self._listen(layer, found)

    # --- what the hooks call ---

    def part_runs(self) -> None:
        """A module runs in training, and no step is open."""
        self._steps.begin_if_needed()
        self._state.thread.reaches(FORWARD)

    def graph_runs(self, module: nn.Module) -> None:
        """A graph runs, in training, and in it `module`."""
        state = self._state
        step = state.open
        if step is None:
            if not state.blocks_used and state.trains(module):
                self.part_runs()
        elif step.backwards and self._looked_at != (step.number, step.backwards):
            self._looked_at = (step.number, step.backwards)
            self._steps.end_if_over()
            self._steps.begin_if_needed()

    def enter_model(self, module: nn.Module, args: Any, kwargs: Any, whole: bool) -> None:
        # Evaluation between training steps runs without gradients or in evaluation mode;
        # re-computation of a checkpoint is seen inside.
        state = self._state
        if not state.recording:
            return
        if get_ident() != state.thread.ident:
            if not (torch.is_grad_enabled() and state.trains(module)):
                self._evaluates()  # and is nothing to the step
                return
            if graph_task_id() != -1 or not self._steps.joins(FORWARD):
                return
        explicit = state.open is not None and state.open.explicit
        state.idle = not torch.is_grad_enabled() or not (explicit or state.trains(module))
        if not state.idle:
            self._steps.model_runs()
            if whole and not state.functional:  # its tensors are wrapped
                self._events.model_runs(module, args, kwargs)
            return
        self._events.model_evaluates()
        self._evaluates()

    def _evaluates(self) -> None:
        if not self._avoided:
            return
        with self._changes:
            self._evaluating.add(get_ident())
            for layer, handle in self._avoided.items():
                if handle is not None:
                    handle.remove()
                    self._avoided[layer] = None

    def leave_model(self, output: Any, failed: bool, whole: bool) -> None:
        here = get_ident() == self._state.thread.ident
        if here:
            self._state.idle = False
        if self._evaluating:
            self._evaluated()
        if here and whole and not self._state.functional:
            self._events.model_ran(output, failed)

    def _evaluated(self) -> None:
        with self._changes:
            self._evaluating.discard(get_ident())
            if not self._evaluating and self._state.recording:
                for layer, found in self._watched:
                    if self._avoided.get(layer, self) is None:
                        self._listen(layer, found)

    def ask_device(self) -> None:
        self._device.ask()

    def broke(
        self,
        layer: int,
        leaf: bool,
        module: nn.Module,
        args: Any,
        kwargs: Any,
        inputs: Any,
        output: Any,
    ) -> None:
        """The core wants to know more of this call, whose output is not finite."""
        own = list(unwrapped(tuple(module._parameters.values()))) if leaf else []
        self._core.broken_buffers(*broken_buffers(module, self._record))
        self._core.explain(layer, inputs, output, own)
        step = self._state.open
        first = step is not None and not step.explained
        if step is not None:
            step.explained = True
        if not self._state.functional:
            self._events.module_broke(layer, module, args, kwargs, output, first)
