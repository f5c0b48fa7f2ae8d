"""What is measured beside mpnanny: functions that watch a model and return how to end it.

`python_hooks` is what one writes in an afternoon: the figures of mpnanny's samples by torch's
operators. `device_hooks` computes less and waits for nothing, as tools that dump statistics do.
`hf_debug` is transformers' DebugUnderflowOverflow, and where that is not installed the same by
hooks: `HF_DEBUG` says which.
"""

from __future__ import annotations

import collections
import importlib.util
import os
from collections.abc import Callable

import torch
from torch import nn

Close = Callable[[], None]
Watch = Callable[[nn.Module, torch.optim.Optimizer, str], Close]


def mpnanny_every(interval: int) -> Watch:
    def watch(model: nn.Module, optimizer: torch.optim.Optimizer, folder: str) -> Close:
        from mpnanny import MixedPrecisionNanny

        path = os.path.join(folder, f"every{interval}-{type(model).__name__}.db")
        return MixedPrecisionNanny(
            model, optimizer, trace_interval=interval, db=path, quiet=True
        ).close

    return watch


def _figures(tensor: torch.Tensor) -> list[float]:
    """The columns of tensor_stats that torch's operators give, one .item() each."""
    x = tensor.detach().float().flatten()
    magnitude = x.abs()
    nonzero = magnitude[magnitude > 0]
    low, high = torch.aminmax(x)
    return [
        torch.isnan(x).sum().item(),
        torch.isposinf(x).sum().item(),
        torch.isneginf(x).sum().item(),
        (x == 0).sum().item(),
        low.item(),
        high.item(),
        magnitude.max().item(),
        nonzero.min().item() if nonzero.numel() else 0.0,
        x.mean().item(),
        x.std(correction=0).item(),
        x.norm().item(),
        (nonzero <= 2**-25).sum().item(),
        (nonzero < 2**-14).sum().item(),
        (magnitude >= 65520).sum().item(),
    ]


def python_hooks(model: nn.Module, optimizer: torch.optim.Optimizer, _folder: str) -> Close:
    rows: list[list[float]] = []
    handles = []

    def forward(_module: nn.Module, _args: object, output: object) -> None:
        if isinstance(output, torch.Tensor):
            rows.append(_figures(output))
            if output.grad_fn is not None:
                output.register_hook(lambda gradient: rows.append(_figures(gradient)))

    def before_step(_optimizer: object, _args: object, _kwargs: object) -> None:
        for parameter in model.parameters():
            rows.append(_figures(parameter))
            if parameter.grad is not None:
                rows.append(_figures(parameter.grad))
        rows.clear()

    for module in model.modules():
        if next(module.children(), None) is None:
            handles.append(module.register_forward_hook(forward))
    handles.append(optimizer.register_step_pre_hook(before_step))

    def close() -> None:
        for handle in handles:
            handle.remove()

    return close


def device_hooks(model: nn.Module, optimizer: torch.optim.Optimizer, _folder: str) -> Close:
    """A hook a module: max, min, mean and norm of its inputs, outputs and their gradients, kept
    where they were computed until the step ends.
    """
    rows: list[torch.Tensor] = []
    handles = []

    def take(tensor: torch.Tensor) -> None:
        x = tensor.detach().float()
        rows.append(torch.stack([x.max(), x.min(), x.mean(), x.norm()]))

    def forward(_module: nn.Module, args: tuple[object, ...], output: object) -> None:
        for each in (*args, output):
            if isinstance(each, torch.Tensor) and each.is_floating_point():
                take(each)
        if isinstance(output, torch.Tensor) and output.requires_grad:
            output.register_hook(take)

    for module in model.modules():
        handles.append(module.register_forward_hook(forward))
    handles.append(optimizer.register_step_pre_hook(lambda *_: rows.clear()))

    def close() -> None:
        for handle in handles:
            handle.remove()

    return close


def _hf_hooks(model: nn.Module, _optimizer: torch.optim.Optimizer, _folder: str) -> Close:
    """What DebugUnderflowOverflow does: the least and the greatest magnitude of every module's
    inputs, weights and outputs as text, each step.
    """
    lines: collections.deque[str] = collections.deque(maxlen=21 * 100)

    def take(tensor: torch.Tensor) -> None:
        magnitude = tensor.detach().abs()
        lines.append(f"{magnitude.min():8.2e} {magnitude.max():8.2e}")
        bool(torch.isnan(tensor).any() or torch.isinf(tensor).any())

    def forward(module: nn.Module, args: tuple[object, ...], output: object) -> None:
        for each in (*module.parameters(recurse=False), *args, output):
            if isinstance(each, torch.Tensor) and each.is_floating_point():
                take(each)

    handles = [module.register_forward_hook(forward) for module in model.modules()]

    def close() -> None:
        for handle in handles:
            handle.remove()

    return close


HAS_TRANSFORMERS = importlib.util.find_spec("transformers") is not None
HF_DEBUG = (
    "transformers' DebugUnderflowOverflow"
    if HAS_TRANSFORMERS
    else "hooks as of DebugUnderflowOverflow"
)


def hf_debug(model: nn.Module, optimizer: torch.optim.Optimizer, folder: str) -> Close:
    if not HAS_TRANSFORMERS:
        return _hf_hooks(model, optimizer, folder)
    from transformers.debug_utils import DebugUnderflowOverflow

    kept = [DebugUnderflowOverflow(model)]
    return kept.clear


def nothing(_model: nn.Module, _optimizer: torch.optim.Optimizer, _folder: str) -> Close:
    return lambda: None
