"""Forward hooks: hand each module's inputs and output to the core."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.compiler import is_compiling

from ._layers import WatchedModule

if TYPE_CHECKING:
    from ._nanny import MixedPrecisionNanny

_graph_task_id: Callable[[], int] = getattr(torch._C, "_current_graph_task_id", lambda: -1)


class ForwardHooks:
    """Installed once and kept: putting them on for a sampled step only would recompile compiled
    models.
    """

    def __init__(self, nanny: MixedPrecisionNanny, modules: Iterable[WatchedModule]) -> None:
        self._nanny = nanny
        self._handles: list[Any] = []
        self.idle = False  # an evaluation, or nothing to record into
        self._core = nanny._core
        for watched in modules:
            layer = self._core.add_layer(
                watched.name,
                type(watched.module).__name__,
                watched.source,
                watched.numel,
                watched.leaf,
            )
            nanny._names[layer] = watched.name
            if not watched.name:
                self._handles.append(watched.module.register_forward_pre_hook(self._enter_model))
            hook = self._make(layer, watched.leaf)
            self._handles.append(watched.module.register_forward_hook(hook))
            if not watched.name:
                leave = watched.module.register_forward_hook(self._leave_model, always_call=True)
                self._handles.append(leave)

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _enter_model(self, _module: nn.Module, _args: Any) -> None:
        if is_compiling():
            return
        # Evaluation between training steps runs without gradients; re-computation of a checkpoint
        # is seen inside.
        self.idle = not torch.is_grad_enabled()
        if not self.idle:
            self._nanny._begin_if_needed()

    def _leave_model(self, _module: nn.Module, _args: Any, _output: Any) -> None:
        if not is_compiling():
            self.idle = False

    def _make(self, layer: int, leaf: bool) -> Callable[[nn.Module, Any, Any], None]:
        observe = self._core.observe
        nanny = self._nanny

        def hook(module: nn.Module, args: Any, output: Any) -> None:
            if is_compiling() or self.idle or not nanny._recording or _graph_task_id() != -1:
                return
            if nanny._open is None:  # a part of the model that is called by itself
                if nanny._blocks_used or not torch.is_grad_enabled():
                    return
                nanny._begin_if_needed()
            try:
                if observe(layer, args, output):
                    own = list(module._parameters.values())
                    self._core.explain(layer, args, output, own if leaf else [])
                if nanny._sampling and leaf:
                    self._watch_gradients(layer, output)
            except Exception as error:
                nanny._trouble("a forward hook", error)

        return hook

    def _watch_gradients(self, layer: int, output: Any) -> None:
        outputs = output if isinstance(output, (tuple, list)) else (output,)
        for slot, tensor in enumerate(outputs[:8]):
            if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
                tensor.register_hook(self._make_gradient_hook(layer, slot, self._nanny._number))

    def _make_gradient_hook(self, layer: int, slot: int, step: int) -> Callable[[Any], None]:
        nanny = self._nanny

        def hook(gradient: torch.Tensor) -> None:
            if not nanny._recording or nanny._number != step:
                return
            try:
                self._core.activation_gradient(layer, slot, nanny._inverse_scale(), gradient)
            except Exception as error:
                nanny._trouble("a gradient hook", error)

        return hook
