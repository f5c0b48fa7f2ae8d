"""What the programs of this folder share: data, a small model, and what they print for the test."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, inputs: int = 8, outputs: int = 1) -> None:
        super().__init__()
        self.enter = nn.Linear(inputs, 16)
        self.leave = nn.Linear(16, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.leave(torch.tanh(self.enter(x)))


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs [16, 8] and targets [16, 1] of a step, the same in every process."""
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(16, 8, generator=generator)
    return x, x.sum(1, keepdim=True) * 0.3


def say_loss(loss: torch.Tensor) -> None:
    print("loss", float(loss.detach()).hex(), flush=True)


def say_weights(tensors: Iterable[torch.Tensor]) -> None:
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.detach().contiguous().view(torch.uint8).numpy().tobytes())
    print("weights", digest.hexdigest(), torch.rand(1).item().hex(), flush=True)
