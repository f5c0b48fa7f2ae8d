"""What the parts of one run share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..base.notes import Notes
from ..base.record import Record
from ..model.names import LayerNames
from ..model.optimizers import Optimizers
from ..model.watched import WatchedModel
from .by_hand import ByHand
from .left import LeftSteps
from .listeners import StepListeners
from .scalers import Scalers
from .state import RunState


@dataclass(frozen=True, slots=True)
class RunContext:
    """Of one run, made once; each part takes what it needs of it."""

    core: Any  # _core.Recorder
    state: RunState
    model: WatchedModel
    names: LayerNames
    record: Record
    notes: Notes
    events: StepListeners


@dataclass(frozen=True, slots=True)
class LoopContext:
    """What is known of the training loop: who updates weights, and how its steps end."""

    optimizers: Optimizers
    scalers: Scalers
    by_hand: ByHand
    left: LeftSteps
