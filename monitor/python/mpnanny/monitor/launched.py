"""Under `mpnanny run`: finds the models that are trained and watches each, without a word in their
code.

The first optimizer that is made (see _launch/sitecustomize.py) makes this listen to every module.
The first module that runs in training mode while an optimizer holds one of its parameters belongs
to a model that is wanted: the largest module that contains it, together with whatever else that
optimizer holds. If none is heard before an optimizer steps, that optimizer's parameters name the
model, or, if no loss depends on them (master copies), the weights of the last loss do. Where there
is no optimizer, weights that differ between two backward passes are trained. Once every optimizer
has its model nothing listens here.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.compiler import is_compiling
from torch.nn.modules.module import register_module_forward_pre_hook

from ..hooks import taps
from ..model.functional import mean_loss, named
from ..model.parts import Together
from ..process import search
from ..process.ends import had_runs, in_spawned_import, live_runs
from ..process.own_file import path_of_our_own
from ..shadow import prelude
from ..steps.reading import tensors
from .calls import TorchCalls
from .nanny import MixedPrecisionNanny
from .undecided import Undecided

_waiting: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()  # without a watched model
_others: weakref.WeakSet[nn.Module] = weakref.WeakSet()  # modules that no optimizer trains
_handles: list[Any] = []
_runs: list[MixedPrecisionNanny] = []
_decided = False
_why_not = ""  # in words, where that was decided
_backwards = 0
_forwards = 0  # heard since the last model was found


class _Here(threading.local):
    """Of the thread that calls: what it derives and steps is no other thread's."""

    def __init__(self) -> None:
        self.undecided = Undecided()
        self.calls_closure: weakref.ref[torch.optim.Optimizer] | None = None  # the one that does
        self.scaled: tuple[Any, ...] = ()  # what scaler.scale() got and gave, until backward() ends


_here = _Here()
_one = threading.RLock()  # thread at a time decides

# In all: each has a database, a thread and hooks of its own, and a program that trains a new copy
# in every round (federated learning, cross-validation, a search) makes hundreds.
MOST_MODELS = 16
MOST_FORWARDS = 20_000  # of modules without another model: listening to each call costs


class _Listener(taps.SomeCalls):
    """Hears of losses and optimizers until all models are found."""

    def heard_loss_scaled(self, scaler: Any, outputs: Any, result: Any) -> None:
        _harmless(scaled, scaler, outputs, result)

    def heard_backward_begins(self, losses: Any) -> None:
        _harmless(backward_called, losses)

    def heard_gradients(self, outputs: Any, inputs: Any, gradients: Any) -> None:
        _harmless(gradients_returned, outputs, inputs, gradients)

    def heard_function_ended(self, weights: Any, gradients: Any, value: Any) -> None:
        _harmless(function_derived, weights, gradients, value)

    def heard_backward_ended(self) -> None:
        _harmless(backward_ended)

    def heard_optimizer_begins(self, optimizer: Any, closure: bool) -> None:
        _harmless(optimizer_steps, optimizer, closure)


_listener: Any = _Listener()
_listening = False


def _harmless(call: Callable[..., None], *args: Any) -> None:
    if _decided or is_compiling():
        return
    with _one:
        if _decided:
            return
        try:
            call(*args)
        except Exception as error:
            _stop(f"{type(error).__name__}: {error}")


def _listen(to_modules: bool) -> None:
    global _listening
    if not _listening:
        _listening = True
        taps.add(_listener)
    if to_modules and not _handles:
        # torch.compile warns of hooks on all modules; this one is gone when models are found.
        warnings.filterwarnings("ignore", message="Using `torch.compile.module.` when there are")
        _handles.append(register_module_forward_pre_hook(_before_forward))


def torch_imported() -> None:
    """Called once, before the program's first operator: tables and data are looked at as well."""
    if in_spawned_import():
        return
    options = json.loads(os.environ.get("MPNANNY_RUN", "{}"))
    if options.get("shadow", "auto") != "off":
        prelude.begin()
    _listen(to_modules=False)


def program_ends(is_command: bool, name: str) -> None:
    """Called at the end of a program that has imported torch, if no process has recorded anything.
    `is_command`: it is what `mpnanny run` was given, and leaves a record whatever it did; `name`:
    its script's.
    """
    if had_runs() or not (is_command or prelude.operators()):
        return
    note = f"nothing was watched: {_seen()}"
    options = json.loads(os.environ.get("MPNANNY_RUN", "{}"))
    _watch(Together({}, {}), quiet=True, name=options.get("name") or name)
    nanny = _runs[-1] if _runs else None
    if nanny is None or not nanny.run:
        return
    nanny.note(note)
    nanny.close("closed" if getattr(sys, "last_value", None) is None else "exception")
    if not options.get("quiet"):
        summary = nanny.summary()
        found = "".join(f"; {each['count']} {each['type']}" for each in summary["alerts"])
        path = summary["run"].partition("#")[0]
        print(f"mpnanny: {note}{found}; recorded into {path}", file=sys.stderr, flush=True)


def _seen() -> str:
    """What a program has done that was not watched, in words."""
    if _why_not:
        return _why_not
    inside: set[int] = set()
    for module in search.modules():
        with contextlib.suppress(Exception):  # half made
            inside.update(id(each) for each in list(module.modules())[1:])
    models = {type(each).__name__ for each in search.modules() if id(each) not in inside}
    made = (
        f"modules were made ({', '.join(sorted(models)[:4])})" if models else "no module was made"
    )
    backward = "backward() was not called"
    if _backwards:
        backward = f"backward() was called {_backwards} {'time' if _backwards == 1 else 'times'}"
    return f"torch was imported, {made}, {backward} and no optimizer stepped"


# --- what happens ---


def optimizer_made(optimizer: torch.optim.Optimizer) -> None:
    """Called for every optimizer of the process."""
    global _decided, _forwards
    with _one:
        if _why_not or _watches_itself() or not _watched_ids().isdisjoint(_held_by(optimizer)):
            return
        _decided, _forwards = False, 0
        _waiting.add(optimizer)
        _others.clear()
        _listen(to_modules=True)


def _before_forward(module: nn.Module, _args: Any) -> None:
    if torch.is_grad_enabled() and module.training:
        _harmless(_module_runs, module)


def _module_runs(module: nn.Module) -> None:
    global _forwards
    if module in _others:
        return
    _forwards += 1
    own = {id(parameter) for parameter in module.parameters()}
    if not own.isdisjoint(_held_ids()):
        _watch_whole(module, own)
    elif _forwards > MOST_FORWARDS:
        _stop_listening()
    else:
        _others.add(module)


def _watch_whole(module: nn.Module, own: set[int]) -> None:
    """The model of `module`, with everything else that its optimizers hold."""
    optimizers = [each for each in _waiting if not own.isdisjoint(_held_by(each))]
    calls = _watch(search.together(_held(optimizers), search.whole_model(module)))
    closure = _closure_of()
    if calls is not None and closure in optimizers:
        calls.heard_optimizer_begins(closure, True)


def backward_called(losses: Any) -> None:
    """A backward pass is about to begin: weights need not be in an optimizer, nor in a module."""
    global _backwards
    _backwards += 1
    weights = search.leaves(losses)
    ids = {id(each) for each in weights}
    if not weights or not ids.isdisjoint(_watched_ids()):
        return
    held = _held_ids()
    if held and search.owner(held) is not None:
        # Its module is heard when it runs, or when its optimizer steps, be it of copies.
        _here.undecided.derived(weights, _unscaled(losses))
        return
    if not held and not _here.undecided.are_trained(weights):
        _here.undecided.derived(weights, _unscaled(losses))
        _listen(to_modules=True)  # to know what the weights go into
        return
    scaling = _here.scaled
    calls = _watch(search.together(weights, ran=_that_ran()))
    if calls is not None:
        closure = _closure_of()
        if closure is not None:
            calls.heard_optimizer_begins(closure, True)
        if scaling and scaling[2] is losses:
            calls.heard_loss_scaled(*scaling)
        calls.heard_backward_begins(losses)


def scaled(scaler: Any, outputs: Any, result: Any) -> None:
    """scaler.scale(outputs) has returned `result`."""
    _here.scaled = (scaler, outputs, result)


def _unscaled(losses: Any) -> Any:
    return _here.scaled[1] if _here.scaled and _here.scaled[2] is losses else losses


def backward_ended() -> None:
    _here.scaled = ()
    _here.undecided.mark()


def gradients_returned(outputs: Any, inputs: Any, gradients: Any) -> None:
    """torch.autograd.grad() has returned."""
    global _backwards
    several = list(inputs.values()) if isinstance(inputs, dict) else inputs
    weights = [each for each in tensors(several) if each.is_leaf]
    if not weights or _waiting or not _watched_ids().isdisjoint(map(id, weights)):
        return
    _backwards += 1
    if _here.undecided.are_trained(weights):
        calls = _watch(search.together(weights, ran=_that_ran()))
        if calls is not None:
            calls.heard_gradients(outputs, inputs, gradients)
        return
    _here.undecided.derived(weights, outputs)
    _here.undecided.mark()
    _listen(to_modules=True)


def function_derived(weights: Any, gradients: Any, value: Any) -> None:
    """torch.func has returned gradients."""
    global _backwards
    if value is None or _waiting or live_runs():
        return
    _backwards += 1
    given = dict(named(weights))
    if _here.undecided.are_trained(list(given.values())):
        model = next((each for each in _others if search.stand_for(each, given)), None)
        calls = _watch(model if model is not None else search.together(given.values()))
        if calls is not None:
            calls.heard_function_ended(weights, gradients, value)
        return
    _here.undecided.derived(list(given.values()), mean_loss(value))
    _here.undecided.mark()
    _listen(to_modules=True)


def _closure_of() -> Any:
    """The optimizer that is calling a closure, if one is."""
    return None if _here.calls_closure is None else _here.calls_closure()


def optimizer_steps(optimizer: torch.optim.Optimizer, closure: bool) -> None:
    """And no module was heard: in evaluation mode, compiled, called by parts; or none that runs,
    where the optimizer holds copies of what does.
    """
    if optimizer not in _waiting:
        return
    ids = _held_by(optimizer)
    owned = search.owner(ids) is not None
    if closure:
        _here.calls_closure = weakref.ref(optimizer)
        if not owned:
            return  # its loss shows the weights
    trained = {id(each) for each in _here.undecided.weights}
    copies = owned and bool(trained) and ids.isdisjoint(trained)
    weights = _here.undecided.weights if copies else _held([optimizer])
    _waiting.discard(optimizer)
    losses, _here.undecided.open = _here.undecided.open, []
    # A loop that gives the optimizer a closure, as Lightning's, has called no module so far.
    owner = search.owner({id(each) for each in weights})
    calls = _watch(search.together(weights, None if owner is None else search.whole_model(owner)))
    if calls is not None:
        calls.open_missed(losses)
        calls.heard_optimizer_begins(optimizer, closure)


# --- watching ---


def _watch(model: nn.Module, **more: Any) -> TorchCalls | None:
    """Begins a run. What torch's calls mean for it: it has missed the one that is handed out."""
    if _watches_itself():
        _stop_listening()
        return None
    if len(_runs) >= MOST_MODELS:
        _stop(f"more models: {MOST_MODELS} are recorded, and the program goes on to train others")
        _runs[0].note(_why_not)
        return None
    options = json.loads(os.environ.get("MPNANNY_RUN", "{}"))
    if "db" in options:
        options["db"] = path_of_our_own(options["db"])
    finished, _here.undecided.finished = _here.undecided.finished, []
    nanny = MixedPrecisionNanny(model, **{**options, **more})  # it lives until the process ends
    _runs.append(nanny)
    for optimizer in list(_waiting):
        ids = _held_by(optimizer)
        if not ids.isdisjoint(_watched_ids()) or search.owner(ids) is None:
            _waiting.discard(optimizer)
    if not _waiting:
        _stop_listening()
    if nanny.calls is not None:
        nanny.calls.take_missed(finished)
    return nanny.calls


def _watches_itself() -> bool:
    """Whether the program has made runs of its own."""
    return len(live_runs()) > sum(bool(nanny.run) for nanny in _runs)


def _stop_listening() -> None:
    global _decided, _listening
    _decided = True
    for handle in _handles:
        handle.remove()
    _handles.clear()
    _others.clear()
    _here.undecided.forget()
    _listening = False
    taps.remove(_listener)


def _stop(why: str) -> None:
    global _why_not
    _stop_listening()
    _why_not = why
    print(f"mpnanny: not watching: {why}", file=sys.stderr, flush=True)


def _held(optimizers: Iterable[torch.optim.Optimizer]) -> list[torch.Tensor]:
    return [p for each in optimizers for group in each.param_groups for p in group["params"]]


def _held_by(optimizer: torch.optim.Optimizer) -> set[int]:
    return {id(each) for each in _held([optimizer])}


def _held_ids() -> set[int]:
    return {id(each) for each in _held(_waiting)}


def _watched_ids() -> set[int]:
    models = [nanny.model for nanny in _runs if nanny.run]
    return {id(p) for model in models if model is not None for p in model.parameters()}


def _that_ran() -> list[nn.Module]:
    """The outermost modules that have run and that no optimizer trains."""
    inside = {id(part) for each in _others for part in list(each.modules())[1:]}
    return [each for each in _others if id(each) not in inside]
