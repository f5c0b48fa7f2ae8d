"""What can be put back: buffers that a bad step has spoiled, and the state of some steps ago."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn


def all_finite(tensors: list[torch.Tensor]) -> bool:
    """One wait for the device."""
    with torch.no_grad():
        held = [each.detach() for each in tensors if each.is_floating_point() and each.numel()]
        if not held:
            return True
        norms = torch._foreach_norm(held)
        if torch.stack([each.float().cpu() for each in norms]).isfinite().all():
            return True
        return all(bool(each.isfinite().all()) for each in held)  # squares may have overflowed


class Buffers:
    """Copies of the floating-point buffers (running statistics) as they were before the step."""

    def __init__(self, model: nn.Module) -> None:
        self._now = [each for each in model.buffers() if each.is_floating_point() and each.numel()]
        self._was = [each.detach().clone() for each in self._now]

    def keep(self) -> None:
        if self._now:
            with torch.no_grad():
                torch._foreach_copy_(self._was, self._now)

    def put_back(self) -> bool:
        """Whether any was not finite; then all are as they were."""
        if all_finite(self._now):
            return False
        with torch.no_grad():
            torch._foreach_copy_(self._now, self._was)
        return True


class Snapshot:
    """Parameters, buffers and the optimizer's state, in memory."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
        self.step = step
        self._model = model
        self._optimizer = optimizer
        self._tensors = [*model.parameters(), *model.buffers()]
        self._was = [each.detach().clone() for each in self._tensors]
        self._state: dict[str, Any] = copy.deepcopy(optimizer.state_dict())

    def put_back(self) -> None:
        """Learning rates stay as they are: a schedule has gone on."""
        with torch.no_grad():
            for tensor, was in zip(self._tensors, self._was, strict=True):
                tensor.copy_(was)
        rates = [group["lr"] for group in self._optimizer.param_groups]
        self._optimizer.load_state_dict(copy.deepcopy(self._state))
        for group, rate in zip(self._optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
