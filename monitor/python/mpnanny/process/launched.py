"""Under `mpnanny run`: finds the model that is trained and watches it, without a word in its code.

The first optimizer that is made (see _launch/sitecustomize.py) makes this listen to every module.
The first module that runs in training mode while an optimizer holds one of its parameters belongs
to the model that is wanted: the largest module that contains it. If none is heard before an
optimizer steps, that optimizer's parameters name the model. Where weights are in no optimizer, or
in no module, the loss of a backward pass shows them. From then on nothing listens here.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import json
import os
import sys
import warnings
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch
import torch.optim.optimizer as torch_optimizer
from torch import nn
from torch.compiler import is_compiling
from torch.nn.modules.module import register_module_forward_pre_hook

from .._nanny import MixedPrecisionNanny
from ..shadow import prelude
from .ends import had_runs, in_spawned_import, live_runs

_optimizers: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
_others: weakref.WeakSet[nn.Module] = weakref.WeakSet()  # modules that no optimizer trains
_handles: list[Any] = []
_decided = False
_why_not = ""  # in words, where that was decided
_backwards = 0

PATIENCE = 2  # backward passes without any optimizer, after which the weights are those of the loss
MOST_NODES = 4096  # of the loss's graph


def torch_imported() -> None:
    """Called once, before the program's first operator: tables and data are looked at as well."""
    options = json.loads(os.environ.get("MPNANNY_RUN", "{}"))
    if not in_spawned_import() and options.get("shadow", "auto") != "off":
        prelude.begin()


def program_ends(is_command: bool, name: str) -> None:
    """Called at the end of a program that has imported torch, if no process has recorded anything.
    `is_command`: it is what `mpnanny run` was given, and leaves a record whatever it did; `name`:
    its script's.
    """
    if had_runs() or not (is_command or prelude.operators()):
        return
    note = f"nothing was watched: {_seen()}"
    options = json.loads(os.environ.get("MPNANNY_RUN", "{}"))
    nanny = _watch(_Weights([]), quiet=True, name=options.get("name") or name)
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
    for module in _modules():
        with contextlib.suppress(Exception):  # half made
            inside.update(id(each) for each in list(module.modules())[1:])
    models = {type(each).__name__ for each in _modules() if id(each) not in inside}
    made = (
        f"modules were made ({', '.join(sorted(models)[:4])})" if models else "no module was made"
    )
    backward = "backward() was not called"
    if _backwards:
        backward = f"backward() was called {_backwards} {'time' if _backwards == 1 else 'times'}"
    return f"torch was imported, {made}, {backward} and no optimizer stepped"


def optimizer_made(optimizer: torch.optim.Optimizer) -> None:
    """Called for every optimizer of the process."""
    if _decided:
        return
    _optimizers.add(optimizer)
    _others.clear()
    if not _handles:
        # torch.compile warns of hooks on all modules; this one is gone after its first word.
        warnings.filterwarnings("ignore", message="Using `torch.compile.module.` when there are")
        _handles.append(register_module_forward_pre_hook(_before_forward))
        _handles.append(torch_optimizer.register_optimizer_step_pre_hook(_before_step))


def backward_called(losses: Any) -> None:
    """Called for every backward pass of the process, before it begins."""
    global _backwards
    if _decided or is_compiling():
        return
    _backwards += 1
    leaves = _leaves(losses)
    ids = {id(each) for each in leaves}
    held = _held_ids()
    if not held:
        if _backwards >= PATIENCE and leaves:
            _watch(_owner(ids) or _Weights(leaves))
    elif _owner(held) is None and leaves:  # of copies, or of weights that no module has
        _watch(_owner(ids) or _Weights(leaves))


def _leaves(losses: Any) -> list[torch.Tensor]:
    """The tensors whose gradients the losses have."""
    several = losses if isinstance(losses, (list, tuple)) else [losses]
    nodes = [each.grad_fn for each in several if isinstance(each, torch.Tensor)]
    seen: set[Any] = set()
    found: dict[int, torch.Tensor] = {}
    while nodes and len(seen) < MOST_NODES:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None:
            found[id(variable)] = variable
        nodes.extend(each for each, _ in node.next_functions)
    return list(found.values())


class _Weights(nn.Module):
    """Stands for a model that is no module: tensors, and functions of them."""

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        super().__init__()
        self._tensors = tensors

    def named_parameters(self, *_args: Any, **_kwargs: Any) -> Iterator[tuple[str, Any]]:
        for at, tensor in enumerate(self._tensors):
            yield f"weight{at}", tensor


def _before_forward(module: nn.Module, _args: Any) -> None:
    if _decided or is_compiling() or not torch.is_grad_enabled() or not module.training:
        return
    try:
        if module in _others:
            return
        held = _held_ids()
        if any(id(parameter) in held for parameter in module.parameters()):
            _watch(_whole_model(module))
        else:
            _others.add(module)
    except Exception as error:
        _stop(f"{type(error).__name__}: {error}")


def _before_step(optimizer: torch.optim.Optimizer, _args: Any, _kwargs: Any) -> None:
    """An optimizer steps and no module was heard: in evaluation mode, compiled, called by parts."""
    if _decided or is_compiling():
        return
    try:
        model = _owner({id(p) for group in optimizer.param_groups for p in group["params"]})
        if model is None and not _backwards:
            return  # a closure comes first: its loss shows the weights
        if model is None:
            _stop(f"no module holds the parameters of {type(optimizer).__name__}")
        else:
            _watch(model)
    except Exception as error:
        _stop(f"{type(error).__name__}: {error}")


def _watch(model: nn.Module, **more: Any) -> MixedPrecisionNanny | None:
    _stop(None)
    if live_runs():
        return None  # the script watches by itself
    options = json.loads(os.environ.get("MPNANNY_RUN", "{}"))
    if "db" in options:
        options["db"] = _path_of_our_own(options["db"])
    return MixedPrecisionNanny(model, **{**options, **more})  # it lives until the process ends


def _stop(why: str | None) -> None:
    global _decided, _why_not
    _decided = True
    for handle in _handles:
        handle.remove()
    _handles.clear()
    _others.clear()
    if why is not None:
        _why_not = why
        print(f"mpnanny: not watching: {why}", file=sys.stderr, flush=True)


def _held_ids() -> set[int]:
    return {id(p) for each in _optimizers for group in each.param_groups for p in group["params"]}


def _modules() -> Iterable[nn.Module]:
    """Every module of the process. type() and not isinstance(): that asks proxies, which work."""
    return (each for each in gc.get_objects() if issubclass(type(each), nn.Module))


def _whole_model(module: nn.Module) -> nn.Module:
    """The largest module that contains `module`; what only wraps the user's model is taken off."""
    best, most = module, sum(1 for _ in module.modules())
    for each in _modules():
        try:
            members = list(each.modules())
        except Exception:
            continue  # half made
        if len(members) > most and any(member is module for member in members):
            best, most = each, len(members)
    return _unwrapped(best)


def _owner(parameters: set[int]) -> nn.Module | None:
    """The module with most of `parameters`, the smallest of several."""
    best, best_worth = None, (0, 0)
    for each in _modules():
        try:
            held = [id(parameter) in parameters for parameter in each.parameters()]
        except Exception:
            continue
        worth = (sum(held), -len(held))
        if worth > best_worth and sum(held) > 0:
            best, best_worth = each, worth
    return None if best is None else _unwrapped(best)


def _unwrapped(model: nn.Module) -> nn.Module:
    wrappers = {"DistributedDataParallel": "module", "OptimizedModule": "_orig_mod"}
    while (inside := wrappers.get(type(model).__name__)) and isinstance(
        getattr(model, inside, None), nn.Module
    ):
        model = getattr(model, inside)
    return model


def _path_of_our_own(db: str) -> str:
    """`db`, or a name beside it while another process records into it."""
    try:
        with open(f"{db}-ring", "r+b") as ring:
            fcntl.lockf(ring, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return db
    except OSError:
        stem, extension = os.path.splitext(db)
        return f"{stem}-{os.getpid()}{extension}"
    return db
