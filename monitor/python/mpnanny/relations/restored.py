"""States that were saved together and of which a resumed training restored only some.

Looked at once: when an optimizer is about to step for the first time after the program has loaded a
file with several states. Each of those that fits a living object is compared with what that object
holds; what holds it was restored, however the program did it. A state of the optimizer that is not
finite is said then, before it gets into the weights.

Told as well: states that the training held when this process wrote the file, and that are not in
it; and states of the model that a load has left as they were, because the file has them under
another name.
"""

from __future__ import annotations

import gc
import math
import weakref
from collections import deque
from collections.abc import Iterable
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler

from .._core import nonfinite
from ..base.alerts import NewAlert
from ..fp64.findings import NOT_RESTORED, NOT_TESTED, UNDEFINED, Finding
from ..fp64.places import Site
from ..model import checkpoints
from ..model.checkpoints import (
    Digest,
    LeftOut,
    LoadedFile,
    SavedModule,
    SavedNumbers,
    SavedOptimizer,
    digests,
    is_number,
    settings_of,
)
from ..model.optimizers import parameters_of
from ..model.selection import Watched
from ..model.shards import local_part
from ..model.watched import WatchedModel
from ..steps.listeners import StepListener
from ..steps.step import OpenStep
from .watcher import Found, fault

RESTORED = 0.9  # of the tensors of a model
FEW = 8  # parameters whose optimizer state is compared
AFTER = 16  # losses after a load
WORSE = 1.2  # times the loss before the file was written


class Living:
    """What takes states: of the watched model, whose parameters are `own`; modules of anyone."""

    def __init__(self, own: dict[str, torch.Tensor], scalers: list[Any]) -> None:
        ids = {id(each) for each in own.values()}
        self.scalers = scalers
        self.optimizers: list[Any] = []
        self.modules: list[nn.Module] = []
        schedulers: list[Any] = []
        for each in gc.get_objects():
            kind = type(each)  # isinstance() asks proxies, which work then
            if issubclass(kind, torch.optim.Optimizer):
                groups = each.param_groups
                if any(id(one) in ids for group in groups for one in group["params"]):
                    self.optimizers.append(each)
            elif issubclass(kind, LRScheduler):
                schedulers.append(each)
            elif issubclass(kind, nn.Module):
                self.modules.append(each)
        held = set(map(id, self.optimizers))
        self.schedulers = [each for each in schedulers if id(vars(each).get("optimizer")) in held]


class Restored(StepListener):
    """`found(step, findings)` takes what there is to say."""

    name = "restored states"

    def __init__(self, model: WatchedModel, found: Found) -> None:
        self._model = model
        self._found = found
        self._scalers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._looked = 0  # at so many files
        self._loads = 0
        self._losses: deque[Any] = deque(maxlen=AFTER)  # since the newest load
        self._waiting: tuple[Finding, list[float], int] | None = None  # until losses tell

    def scaler_used(self, step: OpenStep, scaler: Any) -> None:
        self._scalers.add(scaler)

    def optimizer_begins(
        self, step: OpenStep, optimizer: Any, held: Watched, closure: bool
    ) -> None:
        new, self._looked = checkpoints.since(self._looked), checkpoints.count()
        for file in new:
            with torch.no_grad():
                finding = self._judge(file, step.number)
                bad = self._loaded_bad(file, optimizer) if file.optimizers else None
            found = [each for each in (finding, bad) if each is not None]
            if found:
                self._found(step.number, found)
        if self._loads != checkpoints.loads():
            self._loads = checkpoints.loads()
            for load in checkpoints.left_out(self._model.module.modules()):
                load.judged = True
                with torch.no_grad():
                    finding = self._left_out(load)
                if finding is not None:
                    self._found(step.number, [finding])

    def step_ended(self, step: OpenStep, alerts: list[NewAlert]) -> None:
        if self._waiting is not None and step.loss is not None:
            self._losses.append(step.loss)
            if len(self._losses) == AFTER:
                self._tell()

    def run_ends(self) -> None:
        if self._waiting is not None:
            self._tell()

    def _tell(self) -> None:
        """What was not saved, as a warning where the loss has risen since."""
        assert self._waiting is not None
        (finding, before, number), self._waiting = self._waiting, None
        after = sorted(map(float, self._losses))
        self._losses.clear()
        if before and after:
            usual, now = median(before), median(after)
            finding.detail |= {"loss_before": usual, "loss_after": now}
            # Of few losses chance alone makes the one side higher.
            if len(after) >= AFTER // 2 and now > max(WORSE * abs(usual), max(before)):
                finding.severity = "WARNING"
        self._found(number, [finding])

    def _left_out(self, load: LeftOut) -> Finding | None:
        """Where the model still holds something else."""
        module = load.module()
        held = digests(state_of(module).items()) if module is not None else {}
        missed = {
            name: other
            for name, (other, digest) in load.names.items()
            if name in held and not held[name].is_like(digest)
        }
        if not missed:
            return None
        first = next(iter(missed))
        return fault(
            NOT_RESTORED,
            Site("load_state_dict", "", "state", load.file, load.line, None),
            "WARNING",
            len(missed) / max(1, len(held)),
            parameters=list(missed)[:16],
            count=len(missed),
            what=f"{first} stands in what was loaded as {missed[first]}, and keeps other values",
        )

    def _loaded_bad(self, file: LoadedFile, optimizer: Any) -> Finding | None:
        """A state that `optimizer` was given and that is not finite before its first step."""
        names = {id(each): name for name, each in self._model.module.named_parameters()}
        load = checkpoints.newest_load(optimizer)
        source, line = (file.file, file.line) if load is None else (load.file, load.line)
        for parameter, state in list(optimizer.state.items()):
            for key, each in state.items() if isinstance(state, dict) else ():
                held = local_part(each)
                if type(held) is not torch.Tensor or not nonfinite([held]):
                    continue
                name = names.get(id(parameter), "")
                return Finding(
                    UNDEFINED,
                    Site("load_state_dict", "", "state", source, line, None),
                    0,
                    str(held.dtype)[6:],
                    str(list(held.shape)),
                    float((~held.isfinite()).to(torch.float32).mean()),
                    math.nan,
                    math.nan,
                    math.inf,
                    precision=NOT_TESTED,  # what broke it, nobody has seen
                    severity="ERROR",
                    reach={("state", name): math.inf},
                    detail={
                        "from": "a state that was not finite when it was loaded",
                        "carrier": "state",
                        "whose": f"{key} of {type(optimizer).__name__}",
                        "at": f"{source}:{line}",
                    },
                )
        return None

    def _judge(self, file: LoadedFile, number: int) -> Finding | None:
        own = state_of(self._model.module)
        taken = [each for each in file.modules if holds(own, each)]
        if not taken:
            return None  # another model's
        file.judged = True
        living = Living(own, list(self._scalers))
        restored = [taken[0].name]
        lost: dict[str, str] = {}
        resumes = rolls_back = False  # the same training goes on; goes back to its best weights
        for saved in file.optimizers:
            these = [each for each in living.optimizers if saved.with_state and fits(saved, each)]
            if any(has_state(saved, each) for each in these):
                restored.append(saved.name)
                resumes = True
            elif these:
                lost[saved.name] = _what_it_holds(saved, these[0])
                resumes = resumes or any(_is_set_alike(saved, each) for each in these)
                rolls_back = rolls_back or all(each.state for each in these)
        for numbers in file.numbers:
            found = _numbers_held(numbers, living)
            if found == "":
                restored.append(numbers.name)
                resumes = resumes or "last_epoch" in numbers.numbers
            elif found is not None:
                lost[numbers.name] = found
        unsaved, jumps = _unsaved(file, living) if file.unsaved is not None else ({}, False)
        for module, held in _modules_held(file, taken, living):
            resumes = resumes or held
            if held:
                restored.append(module.name)
            else:
                lost[module.name] = "no module holds these values"
        if unsaved and not lost and (resumes or jumps):
            finding = _not_saved(file, unsaved, restored, "WARNING" if resumes else "INFO")
            if resumes:
                return finding
            assert file.unsaved is not None
            self._waiting = finding, file.unsaved.losses, number
            self._losses.clear()
            return None
        lost |= unsaved if resumes else {}
        if not lost:
            return None
        # Weights alone may be where another training begins, or the best ones of this one.
        return fault(
            NOT_RESTORED,
            Site("load_state_dict", "", "state", file.file, file.line, None),
            "WARNING" if resumes and not rolls_back else "INFO",
            len(lost) / (len(lost) + len(restored)),
            saved=[*restored, *lost],
            restored=restored,
            what="; ".join(f"{name}: {text}" for name, text in lost.items())[:300],
        )


def _unsaved(file: LoadedFile, living: Living) -> tuple[dict[str, str], bool]:
    """What was held when the file was written, is not in it, and is not held now: by its name, what
    is held instead. And whether an optimizer that is set alike begins anew.
    """
    assert file.unsaved is not None
    lost: dict[str, str] = {}
    anew = False
    for saved in file.unsaved.optimizers:
        these = [each for each in living.optimizers if fits(saved, each)]
        if these and not any(has_state(saved, each) or each.state for each in these):
            if any(_is_set_alike(saved, each) for each in these):
                anew = True
                lost[saved.name] = _what_it_holds(saved, these[0], "not saved")
    here = {id(each) for each in (*living.scalers, *living.schedulers)}
    for numbers, owner in zip(file.unsaved.numbers, file.unsaved.owners, strict=True):
        # A training that goes back to a file of its own keeps what it has.
        if id(owner()) in here:
            continue
        if text := _numbers_held(numbers, living):
            lost[numbers.name] = text
    return lost, anew


def _not_saved(
    file: LoadedFile, lost: dict[str, str], restored: list[str], severity: str
) -> Finding:
    unsaved = file.unsaved
    assert unsaved is not None
    return fault(
        NOT_RESTORED,
        Site("torch.save", "", "state", unsaved.file, unsaved.line, None),
        severity,
        len(lost) / (len(lost) + len(restored)),
        at=f"{file.file}:{file.line}",
        what="; ".join(f"{name}: {text}" for name, text in lost.items())[:300],
    )


def state_of(module: nn.Module) -> dict[str, torch.Tensor]:
    """What state_dict() would give, without the program's own code."""
    return dict(module.named_parameters()) | dict(module.named_buffers())


def holds(own: dict[str, torch.Tensor], saved: SavedModule) -> bool:
    """Whether the tensors of a module are those that were saved, under the same names or, where a
    wrapper has renamed them, in the same order.
    """
    held = digests(own.items())
    if not held:
        return False
    common = [(held[name], each) for name, each in saved.tensors.items() if name in held]
    if not common and len(held) == len(saved.tensors):
        common = list(zip(held.values(), saved.tensors.values(), strict=True))
    same = sum(a.is_like(b) for a, b in common)
    return bool(common) and same >= RESTORED * len(held) and same >= RESTORED * len(common)


def fits(saved: SavedOptimizer, optimizer: Any) -> bool:
    return saved.counts == [len(group["params"]) for group in optimizer.param_groups]


def _states_of(optimizer: Any) -> list[dict[str, Digest]]:
    """In the order of parameters. Not optimizer.state[p]: it is a defaultdict."""
    states = [optimizer.state.get(each) for each in parameters_of(optimizer)]
    return [digests(each.items()) if isinstance(each, dict) else {} for each in states]


def has_state(saved: SavedOptimizer, optimizer: Any) -> bool:
    held = _states_of(optimizer)
    keys = [key for key, each in saved.states.items() if each and isinstance(key, int)]
    keys = [key for key in keys if key < len(held)][:FEW]
    return bool(keys) and all(
        held[key].keys() == saved.states[key].keys()
        and all(each.is_like(saved.states[key][name]) for name, each in held[key].items())
        for key in keys
    )


def _is_set_alike(saved: SavedOptimizer, optimizer: Any) -> bool:
    """The same training goes on: only the learning rate, which a schedule changes, may differ."""
    for before, group in zip(saved.settings, optimizer.param_groups, strict=True):
        now = settings_of(group)
        first = before.get("initial_lr", before.get("lr"))
        if now.get("initial_lr", now.get("lr")) != first:
            return False
        free = ("lr", "initial_lr")
        if {k: v for k, v in before.items() if k not in free} != {
            k: v for k, v in now.items() if k not in free
        }:
            return False
    return True


def _what_it_holds(saved: SavedOptimizer, optimizer: Any, was: str = "saved") -> str:
    names = sorted({name for each in saved.states.values() for name in each})[:3]
    kept = f"{', '.join(names)} of {saved.with_state} parameters were {was}"
    if not any(_states_of(optimizer)):
        return f"{kept}, and the optimizer begins with none of it"
    return f"{kept}, and the optimizer holds other values"


def _numbers_held(saved: SavedNumbers, living: Living) -> str | None:
    """What is held instead, empty where a living object holds them; None: nothing shows it."""
    text = None
    for scaler in living.scalers:
        now = scaler.state_dict() if scaler.is_enabled() else {}
        if not now or saved.keys != now.keys():
            continue
        if now["scale"] == saved.numbers["scale"]:
            return ""
        text = f"the loss scale was {saved.numbers['scale']:g} and is {now['scale']:g}"
    for scheduler in living.schedulers:
        fields = vars(scheduler)
        before = saved.numbers.get("last_epoch")
        if not saved.keys <= fields.keys() or not before or not is_number(fields.get("last_epoch")):
            continue
        at = fields["last_epoch"]
        if at == before:
            return ""
        text = f"the schedule of the learning rate was at {before:g} and is at {at}"
    return text


def _modules_held(
    file: LoadedFile, taken: list[SavedModule], living: Living
) -> Iterable[tuple[SavedModule, bool]]:
    """An average of the weights, another network: whether a living module holds each saved one,
    where there is one for each that was saved.
    """
    others = [each for each in file.modules if each not in taken]
    states = [state_of(each) for each in living.modules] if others else []
    for saved in others:
        same = [each for each in file.modules if _is_shaped_alike(each.tensors, saved.tensors)]
        fitting = [
            each
            for each in states
            if each.keys() == saved.tensors.keys()
            and _is_shaped_alike(digests(each.items()), saved.tensors)
        ]
        if len(fitting) >= len(same):
            yield saved, any(holds(each, saved) for each in fitting)


def _is_shaped_alike(a: dict[str, Digest], b: dict[str, Digest]) -> bool:
    return a.keys() == b.keys() and all(a[name].shape == b[name].shape for name in a)
