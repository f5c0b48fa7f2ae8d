"""States of an optimizer that a checkpoint brought back with the bits of a 16-bit format, while the
optimizer computes with them in FP32; and states in FP32 that load_state_dict() cast to 16 bits, the
type of their parameters, where the optimizer makes them in FP32 itself.

Looked at once a load, when the optimizer is about to step with what it was given: whether all
values of a state are numbers of FP16 or BF16. A state that a file held in 16 bits, or that a cast
has rounded before it was saved, is so to the last element; one that was computed in FP32 is not.
What it does is measured as well: where a second moment became 0 and the first one did not, the next
update divides by eps.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from .._core import grid
from ..fp64.findings import PROVEN, STATE_NARROWED, Finding
from ..fp64.places import Site
from ..model import checkpoints
from ..model.checkpoints import OptimizerLoad
from ..model.samples import is_readable, may_read
from ..model.selection import Watched
from ..model.watched import WatchedModel
from ..operators.modes import others_on
from ..operators.source_casts import cast_near
from ..steps.listeners import StepListener
from ..steps.step import OpenStep, to_float
from .watcher import Found, fault

MOST_NUMBERS = 1 << 27  # of all states together
MANY = 0.01  # of the elements, second moments that became 0
FAR = 10.0  # learning rates: an update that no optimizer makes otherwise
SIXTEEN = {"float16": torch.float16, "bfloat16": torch.bfloat16}
# What an update is divided by the root of, and what it is then made of.
DENOMINATORS = {"exp_avg_sq", "max_exp_avg_sq", "square_avg", "sum", "v"}
NUMERATORS = ("exp_avg", "momentum_buffer", "m")
_ITSELF = ("master", "param", "fp32")  # a copy of the weights, which may begin in 16 bits


@dataclass(slots=True)
class _State:
    """One state of an optimizer by name, of all its parameters."""

    parameters: list[str] = field(default_factory=list)
    on: dict[str, bool] = field(default_factory=lambda: dict.fromkeys(SIXTEEN, True))
    telling: bool = False  # its values would not be on a grid by chance
    numel: int = 0
    spoilt: int = 0  # second moments of 0 under first moments that give a huge update
    cast: torch.dtype | None = None  # FP32 was given, and this is held
    wide: bool = False  # this kind of optimizer makes it in FP32 for such parameters

    @property
    def share(self) -> float:
        return self.spoilt / self.numel


# The type in which a kind of optimizer makes a state by itself, by the parameter's type and the
# state's name.
_made: dict[tuple[type, torch.dtype, str], torch.dtype] = {}


class NarrowedStates(StepListener):
    """`found(step, findings)` takes what there is to say."""

    name = "states in 16 bits"

    def __init__(self, model: WatchedModel, found: Found) -> None:
        self._model = model
        self._found = found
        self._stepped: weakref.WeakSet[Any] = weakref.WeakSet()

    def optimizer_ended(self, step: OpenStep, optimizer: Any, held: Watched) -> None:
        if optimizer in self._stepped:
            return
        self._stepped.add(optimizer)
        if checkpoints.newest_load(optimizer) is None:
            for parameter, state in list(optimizer.state.items()):
                for name, each in state.items() if isinstance(state, dict) else ():
                    if isinstance(each, torch.Tensor):
                        _made[type(optimizer), parameter.dtype, str(name)] = each.dtype

    def optimizer_begins(
        self, step: OpenStep, optimizer: Any, held: Watched, closure: bool
    ) -> None:
        load = checkpoints.newest_load(optimizer)
        if load is None or load.judged or others_on() or not may_read():
            return
        load.judged = True
        with torch.no_grad():
            states = self._read(optimizer, load)
        narrowed = sorted(_narrowed(states, load), key=_worst_first)
        if narrowed:
            self._found(step.number, [_finding(*narrowed[0], load)])

    def _read(self, optimizer: Any, load: OptimizerLoad) -> dict[str, _State]:
        names = {id(each): name for name, each in self._model.module.named_parameters()}
        found: dict[str, _State] = {}
        left = MOST_NUMBERS
        for group in optimizer.param_groups:
            eps = to_float(group.get("eps")) or 0.0
            for parameter in group["params"]:
                state = optimizer.state.get(parameter)  # it is a defaultdict: no [parameter]
                for name, value in state.items() if isinstance(state, dict) else ():
                    if _was_cast(name, value, load):
                        known = found.setdefault(str(name), _State())
                        known.parameters.append(names.get(id(parameter), ""))
                        known.cast = value.dtype
                        made = _made.get((type(optimizer), parameter.dtype, str(name)))
                        known.wide |= made is torch.float32
                        known.numel += value.numel()
                    if not _counts(name, value) or value.numel() > left:
                        continue
                    left -= value.numel()
                    known = found.setdefault(str(name), _State())
                    known.parameters.append(names.get(id(parameter), ""))
                    _measure(known, str(name), value, state, eps)
        return found


def _was_cast(name: Any, value: Any, load: OptimizerLoad) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.dtype in SIXTEEN.values()
        and load.given.get(str(name)) == {torch.float32}
    )


def _counts(name: Any, value: Any) -> bool:
    if not isinstance(value, torch.Tensor) or name == "step":
        return False
    if any(word in str(name) for word in _ITSELF) or not is_readable(value):
        return False
    return value.dtype is torch.float32 and value.numel() > 1


def _measure(known: _State, name: str, value: torch.Tensor, state: Any, eps: float) -> None:
    on_fp16, on_bf16, telling = _grid_of(value)
    known.on["float16"] &= on_fp16
    known.on["bfloat16"] &= on_bf16
    known.telling |= telling
    known.numel += value.numel()
    if name not in DENOMINATORS or not on_fp16:
        return
    zero = value == 0
    for other in NUMERATORS:
        moment = state.get(other)
        if isinstance(moment, torch.Tensor) and moment.shape == value.shape:
            known.spoilt += int((zero & (moment.abs() > FAR * eps)).sum())
            return
    least = value[~zero].min() if not bool(zero.all()) else None
    if least is not None and float(least) < 2.0**-14:  # what is not 0 is hardly above it
        known.spoilt += int(zero.sum())


def _grid_of(value: torch.Tensor) -> tuple[bool, bool, bool]:
    """Whether all of it are numbers of FP16, of BF16; and whether that says anything."""
    if value.device.type == "cpu":
        found = grid(value)
        return (False, False, False) if found is None else (*found[1:3], found[0] != "trivial")
    on = [bool((value.to(each).to(value.dtype) == value).all()) for each in SIXTEEN.values()]
    return on[0], on[1], False


def _narrowed(states: dict[str, _State], load: OptimizerLoad) -> Iterable[tuple[str, _State, str]]:
    """With the format."""
    for name, state in states.items():
        if state.cast is not None:
            yield name, state, str(state.cast)[6:]
            continue
        given = {str(each)[6:] for each in load.given.get(name, ())}
        for dtype in ("bfloat16", "float16"):  # BF16's numbers within FP16's range are of both
            if not state.on[dtype] or (given and given != {dtype} and given != {"float32"}):
                continue
            if given == {dtype} or state.telling or state.share >= MANY:
                yield name, state, dtype
                break


def _worst_first(narrowed: tuple[str, _State, str]) -> tuple[float, bool]:
    return -narrowed[1].share, not narrowed[1].wide


def _finding(name: str, state: _State, dtype: str, load: OptimizerLoad) -> Finding:
    share = state.share
    place = f"{load.file}:{load.line}" if load.file else ""
    cast = cast_near(place, dtype) if state.cast is None else ""
    file, _, line = (cast or place).rpartition(":")
    finding = fault(
        STATE_NARROWED,
        Site("load_state_dict", "", "state", file, int(line or 0), None),
        "ERROR" if share >= MANY else "WARNING" if state.wide else "INFO",
        share,
        what=name,
        **({"given": "float32"} if state.cast is not None else {}),
        parameters=state.parameters[:16],
        count=len(state.parameters),
        share=share,
        **({"at": place} if cast else {}),
    )
    finding.dtype = dtype
    if share >= MANY or state.wide:
        finding.precision = PROVEN
        finding.reach["state", name] = max(share, 2.0**-9 if state.wide else 0.0)
    return finding
