"""What a shadow step has compared with FP64, and of how much: only of that it can say that nothing
was lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

MOST_NAMES = 16
MOST_CANCELLED = 256


class Coverage:
    """Of one step."""

    def __init__(self) -> None:
        self.loss = False
        self._passes = [0, 0]  # backward passes: followed, of
        self._gradients = [0, 0]  # that an optimizer was about to use: compared, of
        self._updated: dict[int, str] = {}  # memory of what it changes with them -> name
        self._changed: set[int] = set()  # memory whose change was compared
        self._cancelled: dict[str, float] = {}  # gradients, by the part that cancels out

    def derives(self, followed: bool) -> None:
        """A backward pass begins; `followed`: its losses have references."""
        self.loss = self.loss or followed
        self._passes[0] += followed
        self._passes[1] += 1

    def uses(self, name: str, weight: torch.Tensor, compared: bool) -> None:
        """An optimizer is about to use the gradient of `weight`, which is named `name`."""
        self._gradients[0] += compared
        self._gradients[1] += 1
        self._updated[weight.untyped_storage()._cdata] = name

    def cancels(self, name: str, share: float) -> None:
        """This part of the elements of a gradient are sums whose terms cancel out."""
        if len(self._cancelled) < MOST_CANCELLED:
            self._cancelled[name] = share

    def changes(self, tensor: torch.Tensor) -> None:
        """A change of what outlives the step was compared."""
        self._changed.add(tensor.untyped_storage()._cdata)

    def figures(self, shown: Any) -> dict[str, Any]:
        """For the record. `shown(name)`: of a parameter, as it may stand there."""
        updated = self._updated.keys()
        left_out = [name for memory, name in self._updated.items() if memory not in self._changed]
        return {
            "loss": int(self.loss),
            "passes": self._passes,
            "gradients": self._gradients,
            "updates": [len(updated & self._changed), len(updated)],
            "states": len(self._changed - updated),
            "not": [shown(name) for name in _some(left_out)],
            "cancelled": [[shown(name), share] for name, share in self._cancelled.items()],
        }


def _some(names: Iterable[str]) -> list[str]:
    return [name for name in names if name][:MOST_NAMES]
