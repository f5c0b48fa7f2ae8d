"""watch_training: watches what a decorated function trains."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Generic, ParamSpec, TypeVar, overload

import torch
from torch import nn

from .nanny import MixedPrecisionNanny

_P = ParamSpec("_P")
_R = TypeVar("_R")


class WatchedFunction(Generic[_P, _R]):
    """A training function, or a function of one training step, that is watched while it runs.

    `nanny`: of the newest call, or None; it stays for its `summary()` after the call.
    """

    def __init__(
        self, function: Callable[_P, _R], keep_open: bool | None, options: dict[str, Any]
    ) -> None:
        self._function = function
        self._signature = inspect.signature(function)
        self._keep_open = keep_open
        self._options = options
        self._said = False
        self._called: list[MixedPrecisionNanny] = []  # of calls under way, in whatever thread
        self._opening = threading.Lock()
        self.nanny: MixedPrecisionNanny | None = None
        functools.update_wrapper(self, function)

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with self._opening:
            nanny = self._open(args, kwargs)
            if nanny is not None:
                self._called.append(nanny)
        if nanny is None:
            return self._function(*args, **kwargs)
        try:
            return self._run(nanny, *args, **kwargs)
        finally:
            self._called.remove(nanny)

    def _run(self, nanny: MixedPrecisionNanny, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        before = nanny.newest_step  # of steps begun: those of a device end later
        try:
            result = self._function(*args, **kwargs)
        except BaseException:
            nanny.close("exception")
            raise
        keep = self._keep_open
        if keep is None:
            keep = nanny.newest_step - before <= 1
        if not keep:
            nanny.close()
        return result

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """As a method."""
        return self if instance is None else functools.partial(self, instance)

    def __reduce__(self) -> str:
        return self._function.__qualname__  # by name, as functions are, for spawned processes

    def close(self) -> None:
        """Ends the run that is still open, if one is."""
        if self.nanny is not None:
            self.nanny.close()

    def _open(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> MixedPrecisionNanny | None:
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError:
            return None  # the call itself raises it
        bound.apply_defaults()
        found = list(_candidates(bound.arguments))
        models = [value for value in found if isinstance(value, nn.Module)]
        model = next((each for each in models if each.training or _trainable(each)), None)
        if model is None:
            self._say(f"{self._function.__name__} got no model among its arguments: not watched")
            return None
        last = self.nanny
        if last is not None and last.run and last.model is model:
            return last
        if last is not None and last not in self._called:  # else another thread trains with it
            last.close()
        optimizer = next((o for o in found if isinstance(o, torch.optim.Optimizer)), None)
        scaler = next((s for s in found if isinstance(s, torch.amp.GradScaler)), None)
        self.nanny = MixedPrecisionNanny(model, optimizer, scaler, **self._options)
        return self.nanny

    def _say(self, text: str) -> None:
        if not self._said and not self._options.get("quiet"):
            self._said = True
            print(f"mpnanny: {text}", file=sys.stderr, flush=True)


def _trainable(model: nn.Module) -> bool:
    return any(parameter.requires_grad for parameter in model.parameters())


def _candidates(arguments: dict[str, Any]) -> Iterator[Any]:
    """The arguments in order; after each what it holds, where it is a list, a tuple, a dict or the
    object that a method belongs to (no module: that is taken whole).
    """
    for name, value in arguments.items():
        yield value
        if isinstance(value, (list, tuple)):
            yield from value
        elif isinstance(value, dict):
            yield from value.values()
        elif name == "self" and not isinstance(value, nn.Module):
            yield from vars(value).values() if hasattr(value, "__dict__") else ()


@overload
def watch_training(function: Callable[_P, _R], /) -> WatchedFunction[_P, _R]: ...


@overload
def watch_training(
    *,
    warmup_steps: int = ...,
    alert_window: int = ...,
    keep_open: bool | None = ...,
    **options: Any,
) -> Callable[[Callable[_P, _R]], WatchedFunction[_P, _R]]: ...


def watch_training(
    function: Callable[..., Any] | None = None,
    /,
    *,
    warmup_steps: int = 100,
    alert_window: int = 50,
    keep_open: bool | None = None,
    **options: Any,
) -> Any:
    """Decorates a function that trains: its first argument that is a module is watched, with the
    optimizer and the GradScaler among its arguments if they are there. A method's object is looked
    into as well (`self.model`), and so are lists and dicts.

        @watch_training(warmup_steps=100, alert_window=50)
        def train(model, optimizer, loader): ...

    A call that makes several steps is one run, from call to return. A call that makes one step at
    most is a step of a longer run, which stays open for the next call with the same model, and ends
    with the process or with `train.close()`. `keep_open=True` says so of a function that is called
    once an epoch, False of one whose every call is a run.

    `warmup_steps`: before alerts that compare with the run's own history, and before the early
    warning. `alert_window`: an alert whose condition pauses for fewer steps goes on as the same one
    (two trace intervals at least). Other options are those of MixedPrecisionNanny. Without a model
    the function runs unwatched, and that is said once.
    """
    # A condition that is looked at every `trace_interval` steps cannot be missed in fewer.
    alert_window = max(alert_window, 2 * options.get("trace_interval", 100))
    options.update(warmup_steps=warmup_steps, alert_window=alert_window)
    MixedPrecisionNanny.check_options(options)

    def decorate(function: Callable[..., Any]) -> WatchedFunction[..., Any]:
        if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
            raise TypeError("watch_training: decorate the function that calls this generator")
        return WatchedFunction(function, keep_open, options)

    return decorate if function is None else decorate(function)
