"""The failing step itself, when no shadow was on: a forward pass is run again on the same inputs
under the shadow, at once.

Nothing of it stays: generators, buffers and attributes are put back, hooks do not run a second
time, inputs are copies. It runs on copies of buffers and of what attributes hold (copies.py), which
are not written back, so that version counters stay as autograd has them. What writes memory that
has no copy, a weight for example, ends the rerun before it is written.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as torch_module
from torch.nn.parameter import is_lazy
from torch.utils._pytree import tree_map

from ..fp64.operators import HIDDEN_WRITES
from ..operators.as_called import run_as_called
from ..operators.modes import StepMode
from ..operators.places import pass_through
from .copies import Copies, NotAgain, common_generators
from .memory import allowance

pass_through(__file__)

_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks_with_kwargs",
    "_backward_hooks",
    "_backward_pre_hooks",
)
_GLOBAL_HOOKS = (
    "_global_forward_hooks",
    "_global_forward_pre_hooks",
    "_global_forward_hooks_always_called",
    "_global_forward_hooks_with_kwargs",
    "_global_backward_hooks",
    "_global_backward_pre_hooks",
)
# What every module has: hooks, parameters, submodules, flags.
_OWN = frozenset(nn.Module().__dict__)


def copied(value: Any, keep_graph: bool = False) -> Any:
    """The inputs of a call in memory of their own."""

    def copy(each: Any) -> Any:
        if not isinstance(each, torch.Tensor):
            return each
        fresh = each.detach().clone()
        return fresh.requires_grad_() if keep_graph and each.requires_grad else fresh

    return tree_map(copy, value)


class OwnMemoryOnly(StepMode):
    """Raises NotAgain before an operator writes memory that was there before, but for that of
    `copies`.
    """

    supports_higher_order_operators = True

    def __init__(self, copies: Iterable[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._ours = {memory for each in copies for memory in _memories(each)}
        self.copied = frozenset(self._ours)  # of buffers and of what attributes hold

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if kwargs is None:
            kwargs = {}
        if not self.looking or types:
            return run_as_called(func, args, kwargs)
        for memory in _memories(_written(func, args, kwargs)):
            if memory not in self._ours:
                raise NotAgain(f"{func} writes memory that was there before")
        result = run_as_called(func, args, kwargs)
        taken = () if func is torch.ops.aten.lift_fresh.default else (args, kwargs)
        self._ours |= set(_memories(result)).difference(_memories(taken))
        return result


def _written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The arguments that an operator writes."""
    schema = getattr(func, "_schema", None)
    if schema is None:
        return []
    found = []
    for at, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            found.append(kwargs.get(argument.name, args[at] if at < len(args) else None))
    hidden = HIDDEN_WRITES.get(schema.name, ())
    if hidden and args[5] is True:  # training
        found.extend(args[at] for at in hidden)
    return found


def _memories(value: Any, depth: int = 0) -> Iterator[int]:
    """Of the tensors in `value`."""
    if isinstance(value, torch.Tensor):
        with contextlib.suppress(NotImplementedError):  # sparse, or inside a transform
            yield value.untyped_storage()._cdata
    elif depth < 4:
        if isinstance(value, (tuple, list)):
            for each in value:
                yield from _memories(each, depth + 1)
        elif isinstance(value, dict):
            yield from _memories(list(value.values()), depth + 1)


@contextlib.contextmanager
def untouched(model: nn.Module) -> Iterator[OwnMemoryOnly]:
    """Whatever runs inside leaves `model` and the generators as they are, and calls no hooks, as
    long as the mode that this gives is on. NotAgain where that cannot be.
    """
    copies = Copies(allowance())
    seen: set[nn.Module] = set()
    left = [model]
    with contextlib.ExitStack() as stack:  # all of it is put back, whatever one part raises
        for undo in common_generators():
            stack.callback(undo)
        stack.callback(copies.put_back)
        for name in _GLOBAL_HOOKS:
            value = getattr(torch_module, name, None)
            if value is not None:
                stack.callback(setattr, torch_module, name, value)
                setattr(torch_module, name, OrderedDict())
        while left:
            for module in left.pop().modules():
                if module not in seen:
                    seen.add(module)
                    _exchange(module, copies, stack)
            left, copies.modules = left + copies.modules, []
        yield OwnMemoryOnly(copies.tensors)


def _exchange(module: nn.Module, copies: Copies, stack: contextlib.ExitStack) -> None:
    """Gives `module` copies of what it holds, until `stack` is closed."""
    is_scripted = isinstance(module, torch.jit.ScriptModule)
    if is_scripted and any(True for _ in module.buffers(recurse=False)):
        raise NotAgain("buffers of a scripted module cannot be exchanged")
    attributes = dict(module.__dict__)

    def put_back() -> None:
        module.__dict__.clear()
        module.__dict__.update(attributes)

    stack.callback(put_back)
    for name in _HOOKS:
        if attributes.get(name):
            module.__dict__[name] = OrderedDict()
    if is_scripted:
        return  # Python has nothing else of it
    for name in ("_parameters", "_buffers", "_modules"):
        stack.callback(_refill, attributes[name], dict(attributes[name]))
    for weight in module._parameters.values():
        if weight is not None and not is_lazy(weight) and type(weight.data) is torch.Tensor:
            stack.callback(_give_data_back, weight, weight.data)
    for name, buffer in module._buffers.items():
        module._buffers[name] = copies.of(buffer)
    for name, value in attributes.items():
        if name not in _OWN:
            module.__dict__[name] = copies.of(value)


def _refill(held: dict[str, Any], was: dict[str, Any]) -> None:
    held.clear()
    held.update(was)


def _give_data_back(weight: torch.Tensor, data: torch.Tensor) -> None:
    """Where the forward pass has set weight.data; that is no operator."""
    if weight.data.untyped_storage()._cdata != data.untyped_storage()._cdata:
        weight.data = data


@contextlib.contextmanager
def without_cast_cache(device: str) -> Iterator[None]:
    """Autocast as it is, but for its cache: casts made here must not be used by the training."""
    enabled = torch.is_autocast_enabled(device)
    dtype = torch.get_autocast_dtype(device)
    with torch.autocast(device, dtype=dtype, enabled=enabled, cache_enabled=False):
        yield
