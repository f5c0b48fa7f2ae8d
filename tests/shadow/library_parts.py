"""What the models of public libraries share: a Training, and the usual ways to optimize one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

Optimizer = torch.optim.Optimizer


@dataclass
class Training:
    """A model and how a step of it goes. `loss`: of a new batch, under autocast. `step`, in its
    place: the whole step, for trainings with more than one loss."""

    model: nn.Module
    optimizers: list[Optimizer]
    loss: Callable[[], Tensor] | None = None
    step: Callable[[Any, Callable[[], Any]], Tensor] | None = None  # (scaler, autocast) -> loss
    scheduler: Any = None
    clip: float | None = None
    accumulate: int = 1
    blocks: bool = True  # `with nanny.step(n)`; else the optimizer's calls are counted
    after: Callable[[], None] = lambda: None
    others: dict[str, nn.Module] = field(default_factory=dict)  # averaged copies and the like


def adamw(model: nn.Module, rate: float = 1e-3, **options: Any) -> Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=rate, **options)


def cosine(optimizer: Optimizer) -> Any:
    """Warm-up and then half a cosine, as most recipes have it."""
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=20)
    down = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 280)
    return torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, down], [20])
