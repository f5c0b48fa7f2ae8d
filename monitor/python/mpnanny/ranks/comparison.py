"""Figures of parameters, buffers and gradients in the steps that ranks are compared by: the first
of a run, and those that are sampled.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ..base.later import HOST, Parcel
from ..model.parts import is_lazy
from ..model.selection import Watched
from ..model.shards import is_sharded
from ..steps.context import RunContext
from ..steps.listeners import StepListener
from ..steps.reading import tensors
from ..steps.step import OpenStep
from .figures import Figures, Pending, figures_of, summed
from .holders import NOBODY, Holders, HoldersOf

PARAMETER, BUFFER, DERIVED, AFTER_BACKWARD, CLIPPED, USED = range(6)

FIRST_STEPS = 64
FIRST_ROWS = 32_768  # of those steps together
FIRST_BYTES = 1 << 31  # that they read together


class RankComparison(StepListener):
    """Of one rank. Gradients are read where they lie, on devices without waiting; bits of the
    training are not touched.
    """

    name = "the comparison of ranks"

    def __init__(self, run: RunContext) -> None:
        self._core = run.core
        self._state = run.state
        self._model = run.model
        self._names = run.names
        self._holders = HoldersOf(run.model.module)
        self._looked = False
        self._known: dict[int, Holders] = {}  # by the tensor's id, in the open step
        self._left = -1  # of the first steps; -1: not known yet
        self.due = False  # the newest step is compared
        self._compiled = False  # something of the model, by torch.compile
        self._hooks: list[Any] = []
        self._hooked: set[int] = set()
        self._prefixes: dict[int, str] = {}  # by the module's id, of its parameters' names
        self._derived: dict[int, Pending | Figures | None] = {}  # by layer
        self._after: dict[int, tuple[Holders, Pending]] = {}
        self._used = False
        self._waiting: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._buffers: dict[str, int] = {}  # name -> layer
        self._hashes: dict[int, int] = {}  # by layer, of the gradient that was told last

    def watch_begins(self) -> None:
        for name, buffer in self._model.module.named_buffers():
            if is_lazy(buffer):
                continue
            layer = self._names.find(name)
            layer = layer or self._names.add(name, "buffer", "", buffer.numel(), False)
            if layer:
                self._buffers[name] = layer

    # --- which steps ---

    def step_begins(self, step: OpenStep) -> None:
        self._release()
        self.deliver(wait=False)
        if self._left < 0:
            self._left = self._first_steps()
        self.due = self._left > 0 or self._state.sampling
        self._left = max(self._left - 1, 0)
        self._after.clear()
        self._hashes.clear()
        self._known.clear()
        self._derived.clear()
        self._used = False
        if self.due:
            if not self._looked:
                self._looked = True
                self._holders.look()
            self._listen()

    def _first_steps(self) -> int:
        parameters = self._model.parameters.parameters
        size = sum(each.numel() * each.element_size() for each in parameters)
        by_rows = FIRST_ROWS // (4 * max(len(parameters), 1))
        by_bytes = FIRST_BYTES // (4 * max(size, 1))
        return max(2, min(FIRST_STEPS, by_rows, by_bytes))

    # --- gradients as autograd hands them to a parameter ---

    def compile_begins(self) -> None:
        self._compiled = True

    def _listen(self) -> None:
        modules = self._model.module.modules()
        self._compiled = self._compiled or any(map(_is_compiled, modules))
        if self._compiled:  # a hook that comes and goes would have its graphs made anew
            return
        for layer, parameter in self._pairs():
            if not is_sharded(type(parameter)) and parameter.requires_grad:
                self._hook(layer, parameter)
        if self._model.parameters.sharded:
            named = self._model.module.named_modules()
            self._prefixes = {id(module): f"{name}." if name else "" for name, module in named}
            # FSDP2 lets a module have the whole parameter while it runs.
            self._hooks.append(nn.modules.module.register_module_forward_hook(self._ran))

    def _hook(self, layer: int, parameter: Any) -> None:
        self._hooked.add(id(parameter))
        self._hooks.append(parameter.register_hook(lambda gradient: self._derives(layer, gradient)))

    def _ran(self, module: nn.Module, _args: Any, _output: Any) -> None:
        for name, parameter in module._parameters.items():
            if parameter is None or is_sharded(type(parameter)) or not parameter.requires_grad:
                continue
            if id(parameter) in self._hooked:
                continue
            layer = self._layer_of(module, name)
            if layer:
                self._hook(layer, parameter)

    def _layer_of(self, module: nn.Module, name: str) -> int:
        prefix = self._prefixes.get(id(module))
        if prefix is None:
            return 0
        return self._model.layers_by_name.get(f"{prefix}{name}", 0)

    def _derives(self, layer: int, gradient: Any) -> None:
        try:
            found = figures_of(gradient)
            before = self._derived.get(layer)
            if before is not None:
                first = before.value() if isinstance(before, Pending) else before
                self._derived[layer] = summed(first, found.value())
            else:
                self._derived[layer] = found
        except Exception:  # within a backward pass of the program
            self._derived.pop(layer, None)

    def _release(self) -> None:
        while self._hooks:
            self._hooks.pop().remove()
        self._hooked.clear()

    # --- moments of the step ---

    def _pairs(self) -> list[tuple[int, Any]]:
        """The watched parameters as the model has them now: FSDP2 exchanges them within a step."""
        layers, named = self._model.layers_by_name, self._model.module.named_parameters()
        return [(layers[name], each) for name, each in named if name in layers]

    def _holders_of(self, tensor: Any) -> Holders:
        known = self._known.get(id(tensor))
        if known is None:
            known = self._known[id(tensor)] = self._holders.of(tensor)
        return known

    def backward_ended(self, step: OpenStep) -> None:
        if not self.due:
            return
        for layer, parameter in self._pairs():
            if parameter.grad is not None:
                holders = self._holders_of(parameter)
                self._after[layer] = holders, figures_of(parameter.grad, max(holders.first, 0))

    def gradients_clipped(
        self, step: OpenStep, parameters: Any, max_norm: Any, total_norm: Any
    ) -> None:
        if not self.due:
            return
        self._tell_norm(step, max_norm, total_norm)
        self._tell_derived(step)
        ids = set(map(id, tensors(parameters)))
        for layer, parameter in self._pairs():
            if id(parameter) in ids and parameter.grad is not None:
                self._put(step, layer, CLIPPED, parameter, parameter.grad)

    def _tell_norm(self, step: OpenStep, max_norm: Any, total_norm: Any) -> None:
        if total_norm is None:
            return
        if is_sharded(type(total_norm)):
            if not all(each.is_replicate() for each in total_norm.placements):
                return  # its value would take a collective of the ranks
            total_norm = total_norm._local_tensor
        number = step.number

        def tell(norm: Any) -> None:
            detail = {"norm": float(norm)}
            if isinstance(max_norm, (int, float)):
                detail["max_norm"] = float(max_norm)
            self._core.event(number, "gradient_norm", json.dumps(detail))

        if isinstance(total_norm, torch.Tensor) and total_norm.device.type not in HOST:
            self._waiting.append((tell, Parcel(total_norm.reshape(()))))
        else:
            tell(total_norm)

    def optimizer_begins(
        self, step: OpenStep, optimizer: Any, held: Watched, closure: bool
    ) -> None:
        if not self.due or closure:
            return
        self._tell_derived(step)
        held_by = {id(each) for group in optimizer.param_groups for each in group["params"]}
        for layer, parameter in self._pairs():
            if id(parameter) in held_by and parameter.grad is not None:
                self._put(step, layer, USED, parameter, parameter.grad)
        if not self._used:
            self._used = True
            self._put_state(step)

    def _tell_derived(self, step: OpenStep) -> None:
        """No further backward pass comes before the update."""
        for layer, found in self._derived.items():
            derived = found if isinstance(found, Pending) else Pending(found)
            self._later(step, layer, DERIVED, NOBODY, derived)
        for layer, (holders, found) in self._after.items():
            self._later(step, layer, AFTER_BACKWARD, holders, found)
        self._derived.clear()
        self._after.clear()

    def _put_state(self, step: OpenStep) -> None:
        for layer, tensor in self.tensors():
            what = PARAMETER if isinstance(tensor, nn.Parameter) else BUFFER
            self._put(step, layer, what, tensor, tensor)

    def step_ends(self, step: OpenStep) -> None:
        self._release()
        if not self.due:
            return
        self._tell_derived(step)
        if not self._used:  # updates by hand, or a step that was skipped
            self._put_state(step)

    def run_ends(self) -> None:
        self._release()
        self.deliver(wait=True)

    def forked(self) -> None:
        self._hooks.clear()
        self._waiting.clear()
        self.due = False

    # --- rows ---

    def _put(self, step: OpenStep, layer: int, what: int, owner: Any, tensor: Any) -> None:
        holders = self._holders_of(owner)
        self._later(step, layer, what, holders, figures_of(tensor, max(holders.first, 0)))

    def _later(
        self, step: OpenStep, layer: int, what: int, holders: Holders, found: Pending
    ) -> None:
        number = step.number

        def put(figures: Figures | None) -> None:
            if figures is None:
                return
            same = what in (AFTER_BACKWARD, USED) and self._hashes.get(layer) == figures[0]
            if what >= DERIVED:
                self._hashes[layer] = figures[0]
            if not same:
                ranks = holders.ranks or None
                self._core.rank_figure(number, layer, what, ranks, holders.first, figures)

        self.when_there(put, found)

    def tensors(self) -> list[tuple[int, Any]]:
        """The watched parameters and buffers, with their layers."""
        named = self._model.module.named_buffers()
        buffers = [(self._buffers[name], each) for name, each in named if name in self._buffers]
        return self._pairs() + buffers

    def when_there(self, give: Callable[[Figures | None], None], found: Pending) -> None:
        """Gives figures as soon as they have arrived from a device."""
        if found.arrived():
            give(found.value())
        else:
            self._waiting.append((give, found))

    def deliver(self, wait: bool) -> None:
        """What has arrived from devices; `wait`: all of it, at the end."""
        while self._waiting and (wait or self._waiting[0][1].arrived()):
            give, what = self._waiting.popleft()
            if isinstance(what, Pending):
                give(what.value())
            else:
                what.wait()
                give(float(what.value))


def _is_compiled(module: nn.Module) -> bool:
    compiled = getattr(module, "_compiled_call_impl", None) is not None
    return compiled or type(module).__name__ == "OptimizedModule"
