"""Slow moving average of the activations of an encoder, as a teacher keeps it."""

import torch


def moving_average(values: torch.Tensor, start: torch.Tensor, decay: float = 0.999) -> torch.Tensor:
    """Average after each of the steps in values [steps, features]."""
    average = start
    history = []
    for value in values:
        average = decay * average + (1.0 - decay) * value
        history.append(average)
    return torch.stack(history)


def teacher_gap(values: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
    """How far the teacher moved from where it began, per feature."""
    history = moving_average(torch.tanh(values) + 2.0, start)
    moved = history[-1] - start
    return moved / start.abs().clamp(min=0.1)
