"""What torch.save() is given, against what the training holds at that moment.

Told are weights that are not those of the model, beside an optimizer's state that is of now (a copy
that was made once and is saved ever since); values that a cast to fewer bits has made 0 or infinite
on the way into the file; and what changes with the training, is held and is not in a file with an
optimizer's state. What is saved as it is held costs a few numbers a tensor, once a file.

What is not in the file is remembered for the load (restored.py). Whether anything comes of it shows
there; an export for inference leaves out all that.
"""

from __future__ import annotations

import gc
import time
import weakref
from collections import deque
from collections.abc import Iterable
from typing import Any

import torch
from torch.optim.lr_scheduler import LRScheduler

from ..base.alerts import NewAlert
from ..fp64.findings import PROVEN, SAVED_OTHERWISE, Finding
from ..fp64.places import Site
from ..model import checkpoints
from ..model.checkpoints import (
    Digest,
    SavedNumbers,
    SavedOptimizer,
    States,
    Unsaved,
    digests,
    saved_numbers,
    saved_optimizer,
)
from ..model.optimizers import parameters_of
from ..model.samples import is_readable, may_read
from ..model.selection import Watched
from ..model.watched import WatchedModel
from ..operators.modes import others_on
from ..operators.places import users_line
from ..operators.source_casts import cast_near
from ..steps.listeners import StepListener
from ..steps.step import OpenStep, to_float
from .narrowed import DENOMINATORS, FAR, MANY, MOST_NUMBERS, NUMERATORS
from .restored import RESTORED, fits, state_of
from .watcher import Found, fault

SHARE = 50  # times what a look has taken go by before the next one
LOSSES = 16  # that are kept
NEAR = 0.5  # of a module's tensors are as they are held, at least, where it is the model's


class SavedStates(StepListener):
    """`found(step, findings)` takes what there is to say."""

    name = "what is saved"

    def __init__(self, model: WatchedModel, found: Found) -> None:
        self._model = model
        self._found = found
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()  # that have stepped
        self._scalers: weakref.WeakKeyDictionary[Any, float] = weakref.WeakKeyDictionary()
        self._begun: dict[str, Digest] = {}  # the model before its first step
        self._losses: deque[Any] = deque(maxlen=LOSSES)
        self._said: set[str] = set()
        self._number = 0
        self._due = 0.0

    # --- what happens ---

    def step_begins(self, step: OpenStep) -> None:
        self._number = step.number

    def scaler_used(self, step: OpenStep, scaler: Any) -> None:
        if scaler not in self._scalers:
            self._scalers[scaler] = to_float(getattr(scaler, "_init_scale", None)) or 0.0

    def optimizer_begins(
        self, step: OpenStep, optimizer: Any, held: Watched, closure: bool
    ) -> None:
        if not self._begun and not others_on() and may_read():
            with torch.no_grad():
                self._begun = digests(state_of(self._model.module).items())
        self._optimizers.add(optimizer)

    def step_ended(self, step: OpenStep, alerts: list[NewAlert]) -> None:
        if step.loss is not None:
            self._losses.append(step.loss)

    def state_saved(self, content: Any) -> None:
        begun = time.perf_counter()
        if not self._optimizers or begun < self._due or others_on() or not may_read():
            return
        with torch.no_grad():
            findings = list(self._look(checkpoints.states_in(content, whole=True)))
        ended = time.perf_counter()
        self._due = ended + SHARE * (ended - begun)
        if findings:
            self._found(self._number, findings)

    # --- what it means ---

    def _look(self, states: States) -> Iterable[Finding]:
        place = users_line()
        own = state_of(self._model.module)
        held = digests(own.items())
        mine = [at for at, each in enumerate(states.modules) if _is_shaped_like(held, each.tensors)]
        same = [at for at in mine if _are_like(held, states.modules[at].tensors)]
        goes_on = [each for each in self._optimizers if _is_in(each, states)]
        if mine and not same and goes_on and held:
            if finding := self._stale(states.modules[mine[0]].tensors, place):
                yield finding
        # What became infinite is like nothing that is held.
        near = [at for at in mine if _are_like(held, states.modules[at].tensors, NEAR)]
        yield from self._narrowed(states, own, [states.tensors[at] for at in near], place)
        if same:
            numbers = list(self._unsaved_numbers(states))
            unsaved = Unsaved(
                [states.modules[at] for at in same],
                list(self._unsaved_optimizers(states)),
                [each for each, _ in numbers],
                owners=[weakref.ref(owner) for _, owner in numbers],
                losses=[float(each) for each in self._losses],
                file=place[0],
                line=place[1],
            )
            if unsaved.optimizers or unsaved.numbers:
                checkpoints.wrote(unsaved)

    def _say_once(self, what: str) -> bool:
        new = what not in self._said
        self._said.add(what)
        return new

    def _stale(self, saved: dict[str, Digest], place: tuple[str, int]) -> Finding | None:
        first = bool(self._begun) and _are_like(self._begun, saved)
        if not self._say_once("stale" if first else "other"):
            return None
        return fault(
            SAVED_OTHERWISE,
            Site("torch.save", "", "state", *place, None),
            "WARNING" if first else "INFO",
            1.0,
            what="the weights of before the first step" if first else "weights of another time",
            parameters=list(saved)[:16],
            count=len(saved),
        )

    # What a cast has made 0 or infinite.

    def _narrowed(
        self,
        states: States,
        own: dict[str, torch.Tensor],
        modules: list[dict[Any, Any]],
        place: tuple[str, int],
    ) -> Iterable[Finding]:
        left = MOST_NUMBERS
        lost: dict[tuple[str, torch.dtype], list[float]] = {}  # elements, of these spoilt
        names: dict[tuple[str, torch.dtype], list[str]] = {}
        for name, saved, now, spoilt in self._pairs(states, own, modules):
            left -= saved.numel()
            if left < 0:
                break
            key = (name, saved.dtype)
            known = lost.setdefault(key, [0.0, 0.0])
            known[0] += saved.numel()
            known[1] += float(spoilt(saved, now))
            names.setdefault(key, []).append(name)
        for (name, dtype), (numel, spoilt) in lost.items():
            share = spoilt / numel
            bad = share >= MANY if name else spoilt > 0
            if not bad or not self._say_once(f"{name} narrowed"):
                continue
            kind = str(dtype)[6:]
            cast = cast_near(f"{place[0]}:{place[1]}", kind)
            file, _, line = (cast or f"{place[0]}:{place[1]}").rpartition(":")
            finding = fault(
                SAVED_OTHERWISE,
                Site("torch.save", "", "state", file, int(line or 0), None),
                "WARNING",
                share,
                what=name or "weights",
                count=len(names[name, dtype]),
                share=share,
                **({"at": f"{place[0]}:{place[1]}"} if cast else {}),
            )
            finding.dtype = kind
            finding.precision = PROVEN
            finding.reach["state", name or "weights"] = share
            yield finding

    def _pairs(
        self, states: States, own: dict[str, torch.Tensor], modules: list[dict[Any, Any]]
    ) -> Iterable[tuple[str, torch.Tensor, torch.Tensor, Any]]:
        """What is saved in another type than it is held in, with what is held. "" are weights."""
        for optimizer in self._optimizers:
            parameters = list(parameters_of(optimizer))
            for saved, moments in zip(states.optimizers, states.moments, strict=True):
                if not fits(saved, optimizer):
                    continue
                for key, state in moments.items():
                    if not isinstance(key, int) or not 0 <= key < len(parameters):
                        continue
                    now = optimizer.state.get(parameters[key])
                    for name, each in state.items() if isinstance(now, dict) else ():
                        if _is_narrower(each, now.get(name)):
                            yield str(name), each, now[name], _Spoilt(str(name), now, optimizer)
        for tensors in modules:
            for name, each in tensors.items():
                if _is_narrower(each, own.get(name)):
                    yield "", each, own[name], _became_infinite

    # What is not there.

    def _unsaved_optimizers(self, states: States) -> Iterable[SavedOptimizer]:
        for each in self._optimizers:
            if not each.state or any(fits(saved, each) for saved in states.optimizers):
                continue
            inner = [each.state.get(one) for one in parameters_of(each)]
            held = {at: one for at, one in enumerate(inner) if isinstance(one, dict)}
            yield saved_optimizer(type(each).__name__, each.param_groups, held)

    def _unsaved_numbers(self, states: States) -> Iterable[tuple[SavedNumbers, Any]]:
        """With whose they are."""
        for scaler, first in self._scalers.items():
            state = scaler.state_dict() if scaler.is_enabled() else {}
            known = any(each.keys == state.keys() for each in states.numbers)
            if state and not known and state.get("scale") != first:
                yield saved_numbers(type(scaler).__name__, state), scaler
        held = set(map(id, self._optimizers))
        for each in gc.get_objects():
            if not issubclass(type(each), LRScheduler):
                continue
            fields = vars(each)
            if id(fields.get("optimizer")) not in held or not fields.get("last_epoch"):
                continue
            if not any(one.keys <= fields.keys() for one in states.numbers if one.keys):
                kept = {key: value for key, value in fields.items() if key != "optimizer"}
                yield saved_numbers(type(each).__name__, kept), each


class _Spoilt:
    """Counts elements of a state that the file has as 0 or infinite; of second moments only those
    whose update is then far too large.
    """

    def __init__(self, name: str, state: dict[str, Any], optimizer: Any) -> None:
        self._name, self._state = name, state
        self._eps = to_float(optimizer.param_groups[0].get("eps")) or 0.0

    def __call__(self, saved: torch.Tensor, now: torch.Tensor) -> int:
        bad = saved.isinf() & now.isfinite()
        if self._name in DENOMINATORS:
            zero = (saved == 0) & (now != 0)
            for other in NUMERATORS:
                moment = self._state.get(other)
                if isinstance(moment, torch.Tensor) and moment.shape == now.shape:
                    zero = zero & (moment.abs() > FAR * self._eps)
                    break
            bad = bad | zero
        return int(bad.sum())


def _became_infinite(saved: torch.Tensor, now: torch.Tensor) -> int:
    return int((saved.isinf() & now.isfinite()).sum())


def _is_narrower(saved: Any, held: Any) -> bool:
    if not isinstance(saved, torch.Tensor) or not isinstance(held, torch.Tensor):
        return False
    if not is_readable(saved) or not is_readable(held) or saved.shape != held.shape:
        return False
    return saved.element_size() < held.element_size() and saved.device == held.device


def _is_shaped_like(held: dict[str, Digest], saved: dict[str, Digest]) -> bool:
    """Whether these are the model's states by name and shape, nearly all of them."""
    common = [name for name in saved if name in held and held[name].shape == saved[name].shape]
    return bool(held) and len(common) >= RESTORED * max(len(held), len(saved))


def _are_like(held: dict[str, Digest], saved: dict[str, Digest], share: float = RESTORED) -> bool:
    common = [each.is_like(saved[name]) for name, each in held.items() if name in saved]
    return sum(common) >= share * len(held)


def _is_in(optimizer: Any, states: States) -> bool:
    """Whether the file has the state of `optimizer` as it is now."""
    for saved in states.optimizers:
        if not fits(saved, optimizer) or not saved.with_state:
            continue
        parameters = list(parameters_of(optimizer))
        for key, known in saved.states.items():
            state = optimizer.state.get(parameters[key]) if isinstance(key, int) else None
            if known and isinstance(state, dict):
                held = digests(state.items())
                return all(name in held and held[name].is_like(e) for name, e in known.items())
    return False
