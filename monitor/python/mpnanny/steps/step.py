"""What the front gathers about one training step before the core ends it."""

from __future__ import annotations

import time
import weakref
from dataclasses import dataclass, field
from typing import Any

import torch

from ..base.later import HOST, Later, later
from .losses import Figure, Losses

__all__ = ["Figure", "OpenStep", "to_float"]


def to_float(value: Any) -> Any:
    """A Figure from a number or a one-element tensor; None where it cannot be had without waiting
    for a device.
    """
    if isinstance(value, torch.Tensor):
        if value.device.type not in HOST:
            return later(value)
        return float(value.detach()) if value.numel() == 1 else None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


@dataclass
class OpenStep:
    number: int
    explicit: bool  # opened by step(), not by the model running
    started: float = field(default_factory=time.perf_counter)
    logged_loss: Figure | None = None
    logged_lr: Figure | None = None
    losses: Losses = field(default_factory=Losses)  # of what backward() or scale() got
    seen_loss: Figure | None = None  # what they come to, once no further one comes
    summed_up: bool = False
    loss_from_scaler: bool = False  # scale() gave it; what follows is the same loss, scaled
    scaled: tuple[weakref.ref[torch.Tensor], ...] = ()  # what scale() has returned last
    in_closure: bool = False  # an optimizer is calling a closure
    closure_heard: bool = False  # the first of its losses is counted
    backward_heard: bool = False
    explained: bool = False  # something that is not finite was met
    forwards: int = 0  # of the whole model
    lr: Figure | None = None
    scale: Figure | None = None
    scale_after: Figure | None = None
    growth_interval: int = 2000
    uses_scaler: bool = False
    scale_now: Figure | None = None  # differs from `scale` after an update within the step
    read: set[int] = field(default_factory=set)  # ids of parameters whose gradients are read
    stepped: set[int] = field(default_factory=set)  # ids of optimizers that really stepped
    optimizer_stepped: bool = False  # the main one, or its step was skipped
    over: bool = False  # it has, within the backward pass: what comes next is another step
    awaits_update: bool = False  # scaler.step() came, scaler.update() not yet
    unscaled: set[int] = field(default_factory=set)  # ids of optimizers, by unscale_()
    backwards: int = 0
    witness: Any = None  # a parameter that has got a gradient, and the beginning of that
    dropped: int = 0  # backward passes whose gradients were gone before the next one
    taken_out: bool = False  # and came to the optimizer all the same, added up elsewhere
    added_in: str = ""  # the type in which the passes' gradients were added up
    zeroed_after: int | None = None  # backward passes before the zeroing that no pass has followed
    passes_after_zeroing: bool = False  # and some did, and belong to this step
    served: bool = False  # another model's optimizer has stepped since it began
    left: bool = False  # the loop went on to the next one without an update
    bad_gradients: bool = False  # after a backward pass, before anything was done to them
    skipped: Any = False  # a bool; a Later for a fused optimizer on a device
    ended: float | None = None  # when its block or its optimizer step ended

    @property
    def loss(self) -> Figure | None:
        if self.logged_loss is not None:
            return self.logged_loss
        return self.seen_loss if self.summed_up else self.losses.value

    def sum_up(self) -> None:
        """No further backward pass comes."""
        self.seen_loss, self.summed_up = self.losses.value, True

    def settle(self) -> None:
        """Every Later becomes what it has turned out to be; None if it is not known."""
        for name, value in vars(self).items():
            if isinstance(value, Later):
                setattr(self, name, value.value)
        self.skipped = bool(self.skipped)

    def end_arguments(self, peak_memory: int | None) -> tuple[Any, ...]:
        now = time.perf_counter() if self.ended is None else self.ended
        lr = self.logged_lr if self.logged_lr is not None else self.lr
        return (
            time.time(),
            now - self.started,
            self.loss,
            lr,
            self.scale,
            self.scale_after,
            self.growth_interval,
            self.skipped,
            peak_memory,
        )
