"""Losses of one step that go backward with and without the loss scale: a scaler divides all
gradients of its optimizer by the scale, so what was derived without it counts next to nothing, and
what was multiplied by it twice drowns the rest.

Heard are the scaler's calls and the backward passes, in any step. How often a loss was multiplied
by the scale stands in the first nodes of its graph: sums and constant factors lie between scale()
and backward(). Whether such a pass has left something in the gradients, and whether that is still
there when the scaler steps, a few of their numbers tell. Right are passes of other parameters
(another network's), those whose gradients are taken away again (an attack), those after unscale_(),
and a loss that the program has multiplied by the scale itself.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ..fp64.findings import SCALE_DEPENDENT, Finding
from ..fp64.places import Site, find_call
from ..model.optimizers import ids_of
from ..model.samples import gradient_numbers, may_read
from ..operators.modes import others_on, without_modes
from ..steps.context import RunContext
from ..steps.reading import graph_task_id, reaches, tensors
from ..steps.scalers import read_scale
from .watcher import Found, LoopWatcher, fault, heard

NEEDED = 3  # steps in which it was so
MOST_NODES = 64
MOST_POWERS = 8
MOST_PASSES = 256
MOST_SCALED = 4096
LARGE = 128.0  # a factor that may be a scale which is not known

# Between a loss and what is derived: its parts, in other shapes or added up.
_LINEAR = (
    "Add", "Sub", "Neg", "Mean", "Sum", "Div", "Stack", "Cat", "Unbind", "Select", "View",
    "Reshape", "Squeeze", "Unsqueeze", "ToCopy", "Clone", "Alias", "Expand",
)  # fmt: skip


@dataclass(slots=True)
class _Pass:
    place: str  # file:line of backward()
    powers: set[int]  # of the scale in its loss, of all parts
    wanted: int  # the power that is right at this moment
    reaches: set[int]  # optimizers, by id; of a right pass it is not looked at

    @property
    def is_wrong(self) -> bool:
        return self.powers != {self.wanted}


class MixedScale(LoopWatcher):
    """Says it of each line once."""

    name = "losses with and without the scale"

    def __init__(self, run: RunContext, found: Found) -> None:
        super().__init__(run, found)
        self._scaled: set[int] = set()  # numbers of the nodes that scale() has made
        self._scale = 1.0
        self._is_exact = True
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()  # that a scaler steps
        self._unscaled: set[int] = set()  # optimizers, of this step
        self._passes: list[_Pass] = []  # whose gradients are still there
        self._before: Any = None  # by optimizer, the gradients before a wrong pass
        self._steps: dict[str, int] = {}  # by place
        self._told: set[str] = set()

    def safely(self, call: Callable[[], None]) -> None:
        if graph_task_id() == -1:  # not inside of a pass: activations that are computed again
            super().safely(call)

    # --- what is heard ---

    @heard
    def heard_loss_scaled(self, scaler: Any, outputs: Any, scaled: Any) -> None:
        scale = read_scale(scaler) if scaler.is_enabled() else 1.0
        self._is_exact = isinstance(scale, float)  # else it lies on a device
        self._scale = scale if isinstance(scale, float) else float(scaler._init_scale)
        if self._scale == 1.0 or len(self._scaled) > MOST_SCALED:
            self._scaled.clear()
        numbers = [_number(each.grad_fn) for each in tensors(scaled)]
        self._scaled.update(each for each in numbers if each is not None)

    @heard
    def heard_backward_begins(self, losses: Any) -> None:
        self._before = None
        if not self._optimizers or self._scale == 1.0:
            return
        losses = [each for each in tensors(losses) if each.grad_fn is not None]
        if not losses:
            return
        powers = set().union(*(self._powers(each.grad_fn) for each in losses))
        self._forget_zeroed()
        line = find_call(None, {})
        wanted = 0 if self._unscaled else 1
        new = _Pass(f"{line.file}:{line.line}", powers, wanted, set())
        if new.is_wrong:
            reached = [each for each in self._optimizers if self._reaches(losses, each)]
            new.reaches = {id(each) for each in reached}
            self._before = {id(each): self._numbers(each) for each in reached}
        self._passes = [*self._passes[1 - MOST_PASSES :], new]

    @heard
    def heard_backward_ended(self) -> None:
        before, self._before = self._before, None
        if not before or not self._passes:
            return
        for optimizer in self._optimizers:
            was = before.get(id(optimizer))
            now = None if was is None else self._numbers(optimizer)
            if was is None or now is None or was.shape != now.shape or bool((was == now).all()):
                self._passes[-1].reaches.discard(id(optimizer))

    @heard
    def heard_gradients_unscaled(self, scaler: Any, optimizer: Any) -> None:
        self._unscaled.add(id(optimizer))

    @heard
    def heard_scaler_steps(self, scaler: Any, optimizer: Any) -> None:
        if not scaler.is_enabled() or not ids_of(optimizer) & self._model.parameter_ids:
            return
        self._optimizers.add(optimizer)
        passes = [
            each for each in self._passes if not each.is_wrong or id(optimizer) in each.reaches
        ]
        wrong = [each for each in passes if each.is_wrong]
        if not wrong or not self._are_there(optimizer):
            return
        right = next((each for each in passes if not each.is_wrong), None)
        for each in {each.place: each for each in wrong}.values():
            is_mixed = right is not None or len(each.powers) > 1
            if (is_mixed or max(each.powers) > each.wanted) and each.place not in self._told:
                self._see(each, right)

    @heard
    def heard_scaler_stepped(self, scaler: Any, optimizer: Any) -> None:
        self._unscaled.discard(id(optimizer))

    @heard
    def heard_scale_updated(self, scaler: Any) -> None:
        self._scaled.clear()
        self._passes.clear()

    # --- what it means ---

    def _see(self, wrong: _Pass, right: _Pass | None) -> None:
        count = self._steps[wrong.place] = self._steps.get(wrong.place, 0) + 1
        if count < NEEDED:
            return
        self._told.add(wrong.place)
        self._found(self._number, [_finding(wrong, right, self._scale, count)])

    def _forget_zeroed(self) -> None:
        """Passes whose gradients are gone have no part in the step."""
        if self._passes and any(each.is_wrong for each in self._passes):
            if not any(map(self._are_there, self._optimizers)):
                self._passes.clear()

    def _are_there(self, optimizer: Any) -> bool:
        now = self._numbers(optimizer)
        return now is not None and bool(now.any())

    def _numbers(self, optimizer: Any) -> torch.Tensor | None:
        """A few of its gradients; None where another thread may be writing them."""
        if others_on() or not may_read():
            return None
        with self._thread.reading() as quiet, torch.no_grad():
            return gradient_numbers(optimizer) if quiet else None

    def _reaches(self, losses: list[Any], optimizer: Any) -> bool:
        ids = ids_of(optimizer)
        return any(reaches(each, ids) is True for each in losses)

    def _powers(self, node: Any, left: int = MOST_NODES) -> set[int]:
        """How often the parts of what `node` has made were multiplied by the scale."""
        if node is None or left <= 0:
            return {0}
        name = node.name()
        before = [each for each, _ in node.next_functions if each is not None]
        if not before or (not name.startswith("Mul") and not name.startswith(_LINEAR)):
            return {0}
        parts = [self._powers(each, left // len(before)) for each in before]
        if not name.startswith("Mul"):
            return set(sorted(set().union(*parts))[:MOST_POWERS])
        own = int(_number(node) in self._scaled or self._is_scale(node))
        sums = {own}
        for part in parts:
            sums = {one + other for one in sums for other in part}
        return set(sorted(sums)[:MOST_POWERS])

    def _is_scale(self, node: Any) -> bool:
        """Whether the program multiplies by the scale itself."""
        try:
            factor = getattr(node, "_saved_other", None)
            if factor is None or getattr(factor, "is_cuda", False):
                return False
            with without_modes():  # which are given a number in the place of such a tensor
                value = float(factor)
            return math.isclose(value, self._scale, rel_tol=1e-6) or (
                not self._is_exact and value >= LARGE
            )
        except (RuntimeError, TypeError, ValueError):  # freed, or no single number
            return False


def _number(node: Any) -> int | None:
    return None if node is None else int(node._sequence_nr())


def _finding(wrong: _Pass, right: _Pass | None, scale: float, count: int) -> Finding:
    file, _, line = wrong.place.rpartition(":")
    powers = [each - wrong.wanted for each in wrong.powers if each != wrong.wanted]
    power = max(powers, key=abs)
    return fault(
        SCALE_DEPENDENT,
        Site("backward", "", "backward", file, int(line or 0), None),
        "ERROR" if power > 0 else "WARNING",
        math.nan,
        power=power,
        scale=scale,
        steps=count,
        at=wrong.place if right is None else right.place,
    )
