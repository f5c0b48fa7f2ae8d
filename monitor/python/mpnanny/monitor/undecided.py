"""Gradients that were taken before it is known that weights are trained with them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from ..steps.by_hand import Marks
from ..steps.losses import divisor_of
from ..steps.reading import tensors

PATIENCE = 8  # gradients of weights that do not change


class Undecided:
    """`weights`: of the last loss. `open`: the losses of the step under way, each with the number
    that it was divided by; `finished`: those of the steps before it.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.weights: list[torch.Tensor] = []
        self.open: list[Any] = []
        self.finished: list[list[Any]] = []
        self._marks: Marks | None = None

    def derived(self, weights: Sequence[torch.Tensor], losses: Any) -> None:
        """Gradients of `losses`, tensors or a number, are about to be taken."""
        self.weights = list(weights)
        self.open += _numbers(losses)

    def mark(self) -> None:
        """They have been taken."""
        if self.weights:
            self._marks = Marks(self.weights)

    def are_trained(self, weights: Sequence[torch.Tensor]) -> bool:
        """Whether these have been updated since, or so often used that they are taken as such."""
        marks = self._marks
        if marks is None:
            return False
        if marks.weights_changed(weights) or marks.gradients_changed(weights):
            self.finished.append(self.open)
        elif len(self.open) >= PATIENCE:
            self.finished += [[each] for each in self.open]
        else:
            return False
        self.open = []
        return True


def _numbers(losses: Any) -> Iterable[Any]:
    if isinstance(losses, float):
        return [(losses, 1)]
    return [(each.detach(), divisor_of(each)) for each in tensors(losses) if each.numel() == 1]
