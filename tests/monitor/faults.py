"""What the tests of NaN origins outside of modules share: trainings that break at one step."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import torch
from conftest import batch
from mpnanny import MixedPrecisionNanny
from torch import nn

FAULT = 4  # the step from which on a training is broken; no multiple of trace_interval


def line_of(function: Callable, text: str) -> str:
    lines, first = inspect.getsourcelines(function)
    (at,) = [first + i for i, line in enumerate(lines) if text in line]
    return f"{inspect.getsourcefile(function)}:{at}"


def train(model: nn.Module, loss_of: Callable, db: str, *, blocks: bool, steps: int = 8, **options):
    """Leaves out the update where the gradients are not finite, as careful trainings do: the fault
    is there again in the next step.
    """
    torch.manual_seed(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    nanny = MixedPrecisionNanny(model, optimizer, db=db, quiet=True, **options)
    for step in range(steps):
        x, y = batch()
        block = nanny.step(step) if blocks else None
        if block:
            block.__enter__()
        loss = loss_of(model, x, y, step)
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            parameter.grad.nan_to_num_(0.0, 0.0, 0.0)
        optimizer.step()
        if block:
            block.__exit__(None, None, None)
    nanny.close()
    assert torch._C._len_torch_dispatch_stack() == 0
    return model


def broken(database, step: int = FAULT, lag: int = 0) -> dict:
    """The first error, with the row of the operator that a later step has added to it. There is one
    such row.
    """
    database().one("SELECT name FROM layer WHERE type = 'operator'")
    first = database().alerts(severity="ERROR")[0]
    assert first["step"] == step and f" Traced at step {step + 1 + lag}: " in first["message"]
    return first


def heal(model: nn.Module) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.nan_to_num_(0.1, 0.1, 0.1).clamp_(-0.5, 0.5)
