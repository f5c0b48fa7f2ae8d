"""Listens where torch itself calls: GradScaler, backward(), gradient clipping, optimizers, modes.

torch has no hooks for these (but for optimizers), so the functions are wrapped while at least one
nanny lives, and put back when the last one closes. A wrapper calls the original with exactly what
it got and returns exactly what that returned.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, Protocol

import torch
import torch.optim.optimizer as torch_optimizer
from torch.amp import GradScaler
from torch.compiler import is_compiling
from torch.nn.utils import clip_grad
from torch.utils._python_dispatch import TorchDispatchMode

from ..model import casts, checkpoints, loads, replaced
from ..model.functional import is_nested
from ..operators.places import pass_through
from ..steps.thread import backward_begins_here, here

# Its wrappers lie between the program's line and the operators of scalers, clipping and optimizers.
pass_through(__file__)


class Listener(Protocol):
    """What a nanny hears. No call may raise."""

    def heard_loss_scaled(self, scaler: Any, outputs: Any, scaled: Any) -> None: ...
    def heard_backward_begins(self, tensors: Any) -> None: ...
    def heard_backward_ended(self) -> None: ...
    def heard_gradients(self, outputs: Any, inputs: Any, gradients: Any) -> None: ...
    def heard_function_begins(self) -> None: ...
    def heard_function_ended(self, weights: Any, gradients: Any, value: Any) -> None: ...
    def heard_gradients_unscaled(self, scaler: Any, optimizer: Any) -> None: ...
    def heard_gradients_clipped(self, parameters: Any, max_norm: Any, total_norm: Any) -> None: ...
    def heard_scaler_steps(self, scaler: Any, optimizer: Any) -> None: ...
    def heard_scaler_stepped(self, scaler: Any, optimizer: Any) -> None: ...
    def heard_scale_updates(self, scaler: Any) -> None: ...
    def heard_scale_updated(self, scaler: Any) -> None: ...
    def heard_optimizer_begins(self, optimizer: Any, closure: bool) -> None: ...
    def heard_derived_again(self, outputs: Any) -> None: ...
    def heard_closure_begins(self, optimizer: Any) -> None: ...
    def heard_closure_ended(self, optimizer: Any) -> None: ...
    def heard_optimizer_ended(self, optimizer: Any) -> None: ...
    def heard_zeroed(self, owner: Any) -> None: ...
    def heard_state_loaded(self, owner: Any) -> None: ...
    def heard_state_saved(self, content: Any) -> None: ...
    def heard_compile_begins(self) -> None: ...
    def heard_mode_enters(self, mode: Any) -> None: ...
    def hooks_off(self) -> AbstractContextManager[None]: ...


class SomeCalls:
    """A Listener to the calls that a subclass has a method for. Calls of every thread are heard,
    and what another thread trains may be gone while it is read: who reads tensors asks StepThread.
    """

    def hooks_off(self) -> AbstractContextManager[None]:
        return nullcontext()

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("heard_"):
            raise AttributeError(name)
        return lambda *_: None


_listeners: list[Listener] = []
_undo: list[Callable[[], None]] = []
_of_optimizers: list[Any] = []  # handles
_changes = threading.RLock()  # of these; listeners are called without it
_deriving: dict[int, int] = {}  # backward passes under way, by thread


def others_derive() -> bool:
    """Whether a backward pass is under way in another thread than the one that calls."""
    return bool(_deriving.keys() - {here(), threading.get_ident()})


def _wrap(owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    original = getattr(owner, name, None)
    if original is None:
        return  # another torch version
    wrapper = functools.wraps(original)(make(original))
    setattr(owner, name, wrapper)

    def undo() -> None:
        if getattr(owner, name, None) is wrapper:  # else someone wrapped it after us
            setattr(owner, name, original)

    _undo.append(undo)


def _scale(original: Callable[..., Any]) -> Callable[..., Any]:
    def scale(self: Any, outputs: Any) -> Any:
        scaled = original(self, outputs)
        for listener in tuple(_listeners):
            listener.heard_loss_scaled(self, outputs, scaled)
        return scaled

    return scale


def _unscale(original: Callable[..., Any]) -> Callable[..., Any]:
    def unscale_(self: Any, optimizer: Any) -> Any:
        result = original(self, optimizer)
        for listener in tuple(_listeners):
            listener.heard_gradients_unscaled(self, optimizer)
        return result

    return unscale_


def _scaler_step(original: Callable[..., Any]) -> Callable[..., Any]:
    def step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        for listener in tuple(_listeners):
            listener.heard_scaler_steps(self, optimizer)
        result = original(self, optimizer, *args, **kwargs)
        for listener in tuple(_listeners):
            listener.heard_scaler_stepped(self, optimizer)
        return result

    return step


def _update(original: Callable[..., Any]) -> Callable[..., Any]:
    def update(self: Any, *args: Any, **kwargs: Any) -> Any:
        for listener in tuple(_listeners):
            listener.heard_scale_updates(self)
        result = original(self, *args, **kwargs)
        for listener in tuple(_listeners):
            listener.heard_scale_updated(self)
        return result

    return update


_SCALER = {"scale": _scale, "unscale_": _unscale, "step": _scaler_step, "update": _update}
# Calls of a scaler's functions that are under way, with the thread.
_within: set[tuple[int, int, str]] = set()


def _kinds_of(kind: type) -> list[type]:
    """`kind` and what is made of it, as ShardedGradScaler, which scales by itself."""
    subclasses: list[type] = kind.__subclasses__()
    return [kind, *(each for made in subclasses for each in _kinds_of(made))]


def _outermost(
    name: str,
    make: Callable[[Callable[..., Any]], Callable[..., Any]],
    original: Callable[..., Any],
) -> Callable[..., Any]:
    """Heard once where a function calls the one that it overrides."""
    heard = make(original)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        key = (threading.get_ident(), id(self), name)
        if key in _within:
            return original(self, *args, **kwargs)
        _within.add(key)
        try:
            return heard(self, *args, **kwargs)
        finally:
            _within.discard(key)

    return call


def _backward(original: Callable[..., Any]) -> Callable[..., Any]:
    def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        backward_begins_here()
        thread = threading.get_ident()
        for listener in tuple(_listeners):
            listener.heard_backward_begins(tensors)
        within = _deriving.get(thread, 0)
        _deriving[thread] = within + 1
        try:
            return original(tensors, *args, **kwargs)
        finally:
            if within:
                _deriving[thread] = within
            else:
                _deriving.pop(thread, None)
            for listener in tuple(_listeners):
                listener.heard_backward_ended()

    return backward


def _grad(original: Callable[..., Any]) -> Callable[..., Any]:
    def grad(outputs: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        backward_begins_here()
        gradients = original(outputs, inputs, *args, **kwargs)
        # What is differentiated again is not what weights are updated with.
        again = args[2] if len(args) > 2 else kwargs.get("create_graph", False)
        if is_compiling():
            return gradients
        for listener in tuple(_listeners):
            if again:
                listener.heard_derived_again(outputs)
            else:
                listener.heard_gradients(outputs, inputs, gradients)
        return gradients

    return grad


def _value_and_grad(original: Callable[..., Any]) -> Callable[..., Any]:
    """torch.func.grad and grad_and_value, the outermost call."""

    def grad_and_value_impl(
        func: Any, argnums: Any, has_aux: bool, args: Any, kwargs: Any
    ) -> tuple[Any, Any]:
        if is_compiling() or is_nested():
            return original(func, argnums, has_aux, args, kwargs)  # type: ignore[no-any-return]
        for listener in tuple(_listeners):
            listener.heard_function_begins()
        ended: tuple[Any, Any, Any] = (None, None, None)
        try:
            gradients, result = original(func, argnums, has_aux, args, kwargs)
            ended = (_chosen(args, argnums), gradients, result[0] if has_aux else result)
        finally:
            for listener in tuple(_listeners):
                listener.heard_function_ended(*ended)
        return gradients, result

    return grad_and_value_impl


def _chosen(args: Any, argnums: Any) -> Any:
    return args[argnums] if isinstance(argnums, int) else tuple(args[each] for each in argnums)


def _vjp(original: Callable[..., Any]) -> Callable[..., Any]:
    """torch.func.vjp of one number, the outermost call; its gradients come later."""

    def vjp(func: Any, *primals: Any, **kwargs: Any) -> Any:
        if is_compiling() or is_nested():
            return original(func, *primals, **kwargs)
        for listener in tuple(_listeners):
            listener.heard_function_begins()
        result: Any = None
        try:
            result = original(func, *primals, **kwargs)
        finally:
            if result is None:
                for listener in tuple(_listeners):
                    listener.heard_function_ended(None, None, None)
        value, pull, *more = result
        if not isinstance(value, torch.Tensor) or value.numel() != 1:
            for listener in tuple(_listeners):
                listener.heard_function_ended(None, None, None)
            return result

        @functools.wraps(pull)
        def pulled(*args: Any, **kwargs: Any) -> Any:
            gradients = pull(*args, **kwargs)
            for listener in tuple(_listeners):
                listener.heard_function_ended(primals, gradients, value)
            return gradients

        return (value, pulled, *more)

    return vjp


def _clip(original: Callable[..., Any]) -> Callable[..., Any]:
    def clip(parameters: Any, *args: Any, **kwargs: Any) -> Any:
        for listener in tuple(_listeners):
            listener.heard_gradients_clipped(parameters, *(*args, None, None)[:2])
        return original(parameters, *args, **kwargs)

    return clip


def _zero_grad(original: Callable[..., Any]) -> Callable[..., Any]:
    def zero_grad(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        if not is_compiling():
            for listener in tuple(_listeners):
                listener.heard_zeroed(self)
        return result

    return zero_grad


def _load(original: Callable[..., Any]) -> Callable[..., Any]:
    def load_state_dict(self: Any, *args: Any, **kwargs: Any) -> Any:
        if issubclass(type(self), torch.nn.Module):
            loads.module_loads(self)
        result = original(self, *args, **kwargs)
        checkpoints.heard_state_loaded(self, args[0] if args else kwargs.get("state_dict"))
        for listener in tuple(_listeners):
            listener.heard_state_loaded(self)
        return result

    return load_state_dict


def _cast(original: Callable[..., Any]) -> Callable[..., Any]:
    def cast(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(self, *args, **kwargs)
        before = casts.held_by(self)
        result = original(self, *args, **kwargs)
        casts.heard_cast(self, before)
        return result

    return cast


def _load_file(original: Callable[..., Any]) -> Callable[..., Any]:
    def load(*args: Any, **kwargs: Any) -> Any:
        content = original(*args, **kwargs)
        checkpoints.heard_file(content)
        return content

    return load


def _save_file(original: Callable[..., Any]) -> Callable[..., Any]:
    def save(obj: Any, *args: Any, **kwargs: Any) -> Any:
        for listener in tuple(_listeners):
            listener.heard_state_saved(obj)
        return original(obj, *args, **kwargs)

    return save


_FRAMES_UP_AT = 3  # script(obj, optimize, _frames_up, …)


def _script(original: Callable[..., Any]) -> Callable[..., Any]:
    def script(*args: Any, **kwargs: Any) -> Any:
        # It looks names up in the frame that called it, and this one lies between.
        if len(args) < _FRAMES_UP_AT:
            kwargs["_frames_up"] = kwargs.get("_frames_up", 0) + 1
        with ExitStack() as stack:
            for listener in tuple(_listeners):
                stack.enter_context(listener.hooks_off())
            return original(*args, **kwargs)

    return script


def _compile(original: Callable[..., Any]) -> Callable[..., Any]:
    def compile(*args: Any, **kwargs: Any) -> Any:
        for listener in tuple(_listeners):
            listener.heard_compile_begins()
        return original(*args, **kwargs)

    return compile


def _enter(original: Callable[..., Any]) -> Callable[..., Any]:
    def __enter__(self: Any) -> Any:
        if not is_compiling():
            for listener in tuple(_listeners):
                listener.heard_mode_enters(self)
        return original(self)

    return __enter__


def _before_step(optimizer: Any, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
    """A closure is heard as well: what it returns from is the last moment before the update."""
    if is_compiling():
        return None
    closure = args[1] if len(args) > 1 else kwargs.get("closure")  # args[0] is the optimizer
    for listener in tuple(_listeners):
        listener.heard_optimizer_begins(optimizer, closure is not None)
    if not callable(closure):
        return None
    heard = _heard_closure(optimizer, closure)
    if len(args) > 1:
        return (args[0], heard, *args[2:]), kwargs
    return args, {**kwargs, "closure": heard}


def _heard_closure(optimizer: Any, closure: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(closure)
    def heard(*args: Any, **kwargs: Any) -> Any:
        for listener in tuple(_listeners):
            listener.heard_closure_begins(optimizer)
        result = closure(*args, **kwargs)
        for listener in tuple(_listeners):
            listener.heard_closure_ended(optimizer)
        return result

    return heard


def _after_step(optimizer: Any, _args: Any, _kwargs: Any) -> None:
    if is_compiling():
        return
    for listener in tuple(_listeners):
        listener.heard_optimizer_ended(optimizer)


def add(listener: Listener) -> None:
    """From now on `listener` hears everything, until remove()."""
    with _changes:
        if not _listeners:
            _install()
        _listeners.append(listener)


def _install() -> None:
    for kind in _kinds_of(GradScaler):
        for name, make in _SCALER.items():
            if name in vars(kind):
                _wrap(kind, name, functools.partial(_outermost, name, make))
    _wrap(torch.autograd, "backward", _backward)
    _wrap(torch.autograd, "grad", _grad)
    transforms = sys.modules.get("torch._functorch.eager_transforms")
    _wrap(transforms, "grad_and_value_impl", _value_and_grad)
    _wrap(transforms, "_vjp_with_argnums", _vjp)
    # clip_grad_norm_ looks this one up in its module, however it was itself imported.
    _wrap(clip_grad, "_clip_grads_with_norm_", _clip)
    for owner in (torch.nn.Module, torch.optim.Optimizer, GradScaler):
        _wrap(owner, "load_state_dict", _load)
    for owner in (torch.nn.Module, torch.optim.Optimizer):
        _wrap(owner, "zero_grad", _zero_grad)
    replaced.begin()
    _wrap(torch, "load", _load_file)
    _wrap(torch, "save", _save_file)
    for name in casts.METHODS:
        _wrap(torch.nn.Module, name, _cast)
    # It compiles the hooks of a module, which it cannot.
    _wrap(torch.jit, "script", _script)
    _wrap(torch, "compile", _compile)
    _wrap(torch.nn.Module, "compile", _compile)
    _wrap(TorchDispatchMode, "__enter__", _enter)
    if not _of_optimizers:
        before = torch_optimizer.register_optimizer_step_pre_hook(_before_step)
        after = torch_optimizer.register_optimizer_step_post_hook(_after_step)
        _of_optimizers.extend((before, after))


def _uninstall() -> None:
    while _undo:
        _undo.pop()()
    replaced.end()
    # torch goes through these hooks one by one, and fails in the program's optimizer.step() where
    # another thread takes one away meanwhile. With nobody to listen they do nothing.
    if threading.active_count() == 1:
        while _of_optimizers:
            _of_optimizers.pop().remove()


def remove(listener: Listener) -> None:
    with _changes:
        if listener in _listeners:
            _listeners.remove(listener)
        if not _listeners:
            _uninstall()


def forget() -> None:
    """In a forked child: nobody listens any more, and no other thread is left."""
    global _changes
    _changes = threading.RLock()
    _deriving.clear()
    for listener in tuple(_listeners):
        remove(listener)
