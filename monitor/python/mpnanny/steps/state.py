"""What every part of a run may know of it at this moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from .step import Figure, OpenStep
from .thread import StepThread


class RunState:
    """One object for a run, read by all its parts, also in hooks that run for every module: plain
    attributes, no calls. Written by the life cycle (Session, Steps) and, `idle`, by the model's
    own hooks. What is told of the step that is open holds for its thread alone (thread.py).
    """

    __slots__ = (
        "blocks_used",
        "end_reason",
        "functional",
        "gather",
        "idle",
        "number",
        "on_device",
        "open",
        "reader",
        "recording",
        "sampling",
        "steps_done",
        "thread",
        "trains_in_eval",
    )

    def __init__(self) -> None:
        self.thread = StepThread()
        self.recording = False  # before the start, after the end, in a forked child
        self.idle = False  # the model evaluates
        self.open: OpenStep | None = None
        self.number = -1  # of the newest step that has begun
        self.steps_done = 0  # steps that the core has ended
        self.functional = False  # torch.func computes gradients: tensors are wrapped
        self.sampling = False  # the open step is sampled
        self.on_device = False  # the open step's tensors are on a device
        # Takes a module's call of it, True: then ask for what was gathered (Gathered.note).
        self.gather: Callable[[int, bool, Any, Any], bool] | None = None
        # What the open step's tensors are given to: the core, or what asks a device for it.
        self.reader: Any = None
        self.blocks_used = False  # steps are given by blocks
        self.trains_in_eval = False  # a backward pass came out of evaluation mode
        self.end_reason = "closed"  # as it is known so far

    def trains(self, module: nn.Module) -> bool:
        """False in an evaluation, with gradients on or not."""
        return module.training or self.trains_in_eval

    def inverse_scale(self) -> Figure:
        """What gradients that nobody has unscaled must be multiplied by at this moment."""
        step = self.open
        if step is None or not step.uses_scaler or not step.scale_now:
            return 1.0
        return 1.0 / step.scale_now
