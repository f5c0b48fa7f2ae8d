"""Whether an optimizer's gradients depend on the loss scale, tried in a shadow step: with the scale
doubled, everything that it reaches is computed a second time in FP64, and the gradients must be the
same. A backward pass is linear in its loss: what it makes of a doubled loss is twice as much.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from ..fp64.call import Call, floats, tensors_of
from ..fp64.findings import EXCLUDED, SCALE_DEPENDENT, Finding
from ..fp64.history import is_float
from ..fp64.operators import DRAW
from ..fp64.places import Site, in_backward
from ..fp64.references import References

TWICE = 2.0
SAME = 1e-4  # relative difference of gradients that are the same: eps beside a norm makes less
WHOLE = 0.05  # how near to a whole number a power of the scale is one
MATTERS = 0.01  # part of the squared norm of all gradients
MOST_TURNS = 8
MOST_NAMES = 8
# What a scaler decides is the training's own.
_UPDATE = "aten::_amp_update_scale_"
_UNSCALE = "aten::_amp_foreach_non_finite_check_and_unscale_"


@dataclass(slots=True)
class Turn:
    """A line at which the scale came into gradients or out of them. Powers of the scale."""

    site: Site
    before: float
    after: float


@dataclass(slots=True)
class _Power:
    """Of one parameter's gradient, when the optimizer gets it."""

    name: str
    power: float  # of the scale
    squared: float
    wrong: bool


@dataclass
class ScaleLane:
    """Of one shadow step. `references`: of that step. `most_bytes`: for references and lane.
    `parameters()`: whose gradients are followed.
    """

    references: References
    most_bytes: int
    parameters: Callable[[], Iterable[torch.Tensor]]
    over: bool = False  # it cannot be followed any more
    entered: Site | None = None  # where the loss was multiplied by the scale
    turns: list[Turn] = field(default_factory=list)
    found: list[Finding] = field(default_factory=list)
    tested: bool = False

    def __post_init__(self) -> None:
        self._lane = References()
        self._scale = 1.0
        self._powers: set[float] = set()  # of the losses that were derived
        self._was_read = False  # a number that depends on the scale; others may come of it
        self._derived = False  # a backward pass has run since gradients were last taken in
        self._gradients: set[int] = set()  # their memory
        self._call: Call | None = None
        self._memories: set[int] = set()
        self._args: Any = ()
        self._kwargs: Any = {}
        self._before: dict[int, float] = {}

    # --- what happens ---

    def know(self, scale: Any) -> None:
        """`scale`: a scaler's own tensor, as the step begins or as it is made."""
        if self.over or not isinstance(scale, torch.Tensor) or not is_float(scale):
            return
        if self._lane.entry(scale) is None:
            self._scale = float(scale.detach())
            self._lane.set(scale, scale.detach().to(torch.float64) * TWICE)

    def scaled(self, losses: Iterable[Any], site: Site | None) -> None:
        """A scaler has multiplied `losses`; of the first ones the scale was made only then."""
        if self.over:
            return
        self.entered = self.entered or site
        for loss in floats(list(losses)):
            if self._lane.entry(loss) is None:
                reference = self.references.of(loss)
                self._lane.set(loss, (loss.detach() if reference is None else reference) * TWICE)

    def backward_begins(self, losses: list[torch.Tensor]) -> None:
        """`losses` are about to be derived."""
        if self.over:
            return
        self._take_in()
        if self.turns:  # gradients that were changed, and get another backward pass on top
            self.over = True
        for loss in losses:
            self._powers.add(round(self._power(loss), 3))
        if len(self._powers) > 1 or not all(each in (0.0, 1.0) for each in self._powers):
            self.over = True  # parts of the gradient carry the scale and others do not

    def read(self, tensor: torch.Tensor) -> None:
        """The program reads a number: what it computes of that cannot be followed."""
        if self._holds(tensor) and self._power(tensor) != 0.0:
            self._was_read = True

    def lost(self, values: Any) -> None:
        """An operator on `values` is not followed."""
        if not self.over and any(self._holds(each) for each in floats(values)):
            self.over = True

    # --- operators ---

    def before(self, call: Call, args: Any, kwargs: Any) -> None:
        """`call` is about to run."""
        self._call = None
        if self.over:
            return
        if in_backward():
            self._derived = True
            return
        self._take_in()
        if call.operator.schema_name == _UPDATE:
            return
        if not any(self._holds(each) for each in floats((args, kwargs))):
            return
        draws = call.operator.kind is DRAW and call.operator.draws(args, kwargs)
        if call.whole or draws or (self._was_read and _has_number((args, kwargs))):
            self.over = True
            return
        for written in call.written:
            if not self._holds(written.tensor):
                self._lane.set(written.tensor, written.reference.clone())
        self._call, self._memories = call, set(call.memories)  # those of its arguments
        self._before = {
            each.untyped_storage()._cdata: self._power(each)
            for each in floats((args, kwargs))
            if each.untyped_storage()._cdata in self._gradients
        }
        self._args, self._kwargs = self._of(args), self._of(kwargs)

    def after(self, call: Call, result: Any) -> None:
        if self._call is not call or self.over:
            return
        if call.operator.schema_name == _UNSCALE:
            for gradient in self._args[0]:
                gradient.mul_(self._args[2])
            made: Any = ()
        else:
            try:
                made = call.function(*self._args, **self._kwargs)
            except Exception:  # it takes no FP64, as fused optimizers of a scale
                self.over = True
                return
        held = list(tensors_of(result))
        for one, other in zip(held, tensors_of(made), strict=False):
            if not is_float(one):
                if one.shape != other.shape or not torch.equal(one, other.to(one.dtype)):
                    self.over = True  # what is chosen depends on the scale
            elif one.untyped_storage()._cdata not in self._memories and one.shape == other.shape:
                self._lane.set(one, other)
        self._see_turn(call, [*(each.tensor for each in call.written), *held])
        self._call, self._args, self._kwargs = None, (), {}

    def _see_turn(self, call: Call, made: list[torch.Tensor]) -> None:
        if not self._before:
            return
        before = max(self._before.values(), key=abs)
        sizes = [each for each in made if is_float(each) and self._holds(each)]
        for each in sizes:
            key = each.untyped_storage()._cdata
            if key not in self._gradients:
                if each.numel() < 2:
                    continue  # a norm, a coefficient
                self._gradients.add(key)
            after = self._power(each)
            if abs(after - before) > WHOLE and len(self.turns) < MOST_TURNS:
                if all(turn.site.key != call.site.key for turn in self.turns):
                    self.turns.append(Turn(call.site, before, after))
                return

    # --- the optimizer gets its gradients ---

    def compare(self, parameters: Iterable[tuple[str, torch.Tensor]], site: Site | None) -> None:
        """`site`: where the optimizer steps."""
        parameters = list(parameters)
        if not self.over:
            self._take_in()
        if self.over or not self._powers:
            return
        rows = [row for name, each in parameters if (row := self._row(name, each)) is not None]
        whole = sum(row.squared for row in rows)
        if not whole or not math.isfinite(whole):
            return
        self.tested = True
        wrong = sorted((row for row in rows if row.wrong), key=lambda row: -row.squared)
        part = sum(row.squared for row in wrong) / whole
        if part < MATTERS:
            return
        power = wrong[0].power
        is_whole = abs(power - round(power)) < WHOLE and round(power) != 0
        where = self.turns[0].site if self.turns else site
        if where is None:
            return
        finding = Finding(
            kind=SCALE_DEPENDENT,
            site=where,
            number=0,
            dtype="",
            shape="",
            share=part,
            magnitude=math.nan,
            error_in=math.nan,
            error_out=math.nan,
            precision=EXCLUDED,
            severity="ERROR" if is_whole and part >= 0.5 else "WARNING",
        )
        finding.detail = {
            "power": round(power, 3),
            "scale": self._scale,
            "count": len(wrong),
            "parameters": [row.name for row in wrong[:MOST_NAMES]],
            "entered": self.entered.source if self.entered else "",
            "left": [turn.site.source for turn in self.turns],
        }
        self.found.append(finding)

    def _row(self, name: str, parameter: torch.Tensor) -> _Power | None:
        gradient = parameter.grad
        if gradient is None or not is_float(gradient):
            return None
        reference, lane = self.references.of(gradient), self._lane.of(gradient)
        if reference is None or lane is None:
            return None
        size = float(reference.norm())
        apart = float((lane - reference).norm())
        if not math.isfinite(size) or not math.isfinite(apart):
            return None
        return _Power(name, self._power(gradient), size * size, apart > SAME * size)

    # --- values ---

    def _take_in(self) -> None:
        """Gradients as a backward pass has left them."""
        if not self._derived or not self._powers:
            return
        self._derived = False
        factor = TWICE ** next(iter(self._powers))
        for parameter in self.parameters():
            gradient = parameter.grad
            if gradient is None or not is_float(gradient):
                continue
            reference = self.references.of(gradient)
            if reference is None:
                continue
            if self.references.bytes + self._lane.bytes > self.most_bytes:
                self.over = True
                return
            self._lane.set(gradient, reference * factor)
            self._gradients.add(gradient.untyped_storage()._cdata)

    def _holds(self, tensor: torch.Tensor) -> bool:
        return self._lane.entry(tensor) is not None

    def _power(self, tensor: torch.Tensor) -> float:
        """Of the scale, in the tensor: 1 if it doubles with it."""
        lane = self._lane.of(tensor)
        if lane is None:
            return 0.0
        reference = self.references.of(tensor)
        size = float((tensor if reference is None else reference).detach().double().norm())
        doubled = float(lane.norm())
        return math.log2(doubled / size) if size > 0 and doubled > 0 else 0.0

    def _of(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if not is_float(value):
                return value
            lane = self._lane.of(value)
            reference = self.references.of(value) if lane is None else lane
            return value.detach().to(torch.float64) if reference is None else reference
        if isinstance(value, torch.dtype):
            return torch.float64 if value.is_floating_point else value
        if isinstance(value, (tuple, list)):
            return type(value)(self._of(each) for each in value)
        if isinstance(value, dict):
            return {key: self._of(each) for key, each in value.items()}
        return value


def _has_number(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(map(_has_number, value))
    if isinstance(value, dict):
        return any(map(_has_number, value.values()))
    return isinstance(value, float)
