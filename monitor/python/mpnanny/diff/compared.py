"""What a run has made against its references."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..fp64.comparison import Comparison, compare
from ..fp64.history import is_float
from ..shadow.step import ShadowStep


@dataclass(slots=True)
class Compared:
    """One tensor of the run against FP64. `noise`: its reference is 0 but for rounding."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    found: Comparison
    noise: bool
    size: float = 0.0  # of a gradient: the L2 norm of what it belongs to

    @property
    def error(self) -> float:
        return 0.0 if self.noise else self.found.error


def compare_all(step: ShadowStep, tensors: list[tuple[str, torch.Tensor]]) -> list[Compared]:
    made = []
    for name, tensor in tensors:
        if not is_float(tensor):
            continue
        reference = step.mode.references.of(tensor)
        entry = step.mode.references.entry(tensor)
        found = None if reference is None else compare(tensor, reference)
        if found is not None and entry is not None:
            made.append(
                Compared(
                    name, tensor.dtype, tuple(tensor.shape), found, step.mode.tape.is_noise(entry)
                )
            )
    return made


def compare_loss(step: ShadowStep, loss: torch.Tensor) -> tuple[float, float | None]:
    """The loss as held, and its reference if it is followed."""
    reference = step.mode.references.of(loss)
    held = loss.detach().to(torch.float64).item()
    return held, None if reference is None else reference.item()
