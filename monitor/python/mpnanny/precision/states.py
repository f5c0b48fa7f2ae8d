"""What training keeps from step to step, and what it would lose in 16 bits: weights, the moments of
Adam, accumulated and communicated gradients. From gradients measured in FP32.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import torch

from ..programs.policy import full_precision
from ..programs.program import SEED, Program
from .formats import FORMATS, Format

STEPS = 4  # of training, before weights and gradients are looked at
MOST_ELEMENTS = 1 << 16  # of a tensor that are looked at, evenly spread
MICRO_BATCHES = 16
# Moments are followed for so many steps: long enough for 1 / (1 - beta2) of Adam's default 0.999.
MOMENT_STEPS = 2000
# More than this lost of what a state should be means that it has to be kept in FP32: the share of
# the weights' changes that vanish (the alert STALE_UPDATE fires at 0.5, a plan looks ahead), or the
# relative error (L2) of a moment or a sum.
MOST_LOST = 0.05

# What the simulated gradients of later steps are multiplied by, drawn anew each time: gradients of
# mini-batches scatter about their mean by its own size or more (McCandlish et al., 2018).
_SCATTER = 1.0


@dataclass(frozen=True, slots=True)
class StateLoss:
    """`lost`: of the weights the share (L1) of a step's changes that rounding swallows; of the
    second moment the relative error (L2) of updates, which are divided by its root; of the others
    their own.
    """

    state: str  # weights | exp_avg | exp_avg_sq | gradient_accumulation | communication
    format: str
    lost: float

    @property
    def keep_fp32(self) -> bool:
        return self.lost > MOST_LOST


def measure_states(
    program: Program, formats: tuple[str, ...] = ("bf16", "fp16")
) -> list[StateLoss]:
    """Trains a copy for STEPS steps in FP32 with the optimizer of the program's options."""
    attempt = program.attempt(None)
    optimizer = program.optimizer(attempt)
    parameters = [each for _, each in attempt.leaves if isinstance(each, torch.nn.Parameter)]
    before: list[torch.Tensor] = []
    gradients: list[torch.Tensor] = []
    with full_precision(program.options.device):
        for step in range(STEPS):
            torch.manual_seed(SEED + step)
            program.forward(attempt, contextlib.nullcontext)
            program.backward(attempt, 1.0)
            before = [_sample(each) for each in parameters]
            gradients = [_sample(each.grad) for each in parameters if each.grad is not None]
            optimizer.step()
    after = [_sample(each) for each in parameters]
    losses = []
    for name in formats:
        target = FORMATS[name]
        losses.append(StateLoss("weights", name, _swallowed(before, after, target)))
        once = [target.rounded(each) for each in gradients]
        losses.append(StateLoss("communication", name, _error(once, gradients)))
        summed = [_summed(each, target) for each in gradients]
        losses.append(StateLoss("gradient_accumulation", name, _error(summed, gradients)))
        losses += _moments(optimizer, gradients, target)
    return losses


def _sample(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.detach().reshape(-1)
    every = max(1, flat.numel() // MOST_ELEMENTS)
    return flat[::every].float().clone()


def _swallowed(before: list[torch.Tensor], after: list[torch.Tensor], target: Format) -> float:
    changed = lost = 0.0
    for old, new in zip(before, after, strict=True):
        held = target.rounded(old)
        change = new - old
        gone = (target.rounded(held + change) == held) & (change != 0)
        changed += float(change.abs().sum().item())
        lost += float(change[gone].abs().sum().item())
    return lost / changed if changed else 0.0


def _summed(gradient: torch.Tensor, target: Format) -> torch.Tensor:
    """Its parts added up one by one in the format, as gradient accumulation does."""
    part = target.rounded(gradient / MICRO_BATCHES)
    total = torch.zeros_like(part)
    for _ in range(MICRO_BATCHES):
        total = target.rounded(total + part)
    return total


def _error(held: list[torch.Tensor], exact: list[torch.Tensor]) -> float:
    pairs = list(zip(held, exact, strict=True))
    off = sum(float((h - e).double().square().sum().item()) for h, e in pairs)
    size = sum(float(e.double().square().sum().item()) for e in exact)
    return (off / size) ** 0.5 if size else 0.0


def _moments(
    optimizer: torch.optim.Optimizer, gradients: list[torch.Tensor], target: Format
) -> list[StateLoss]:
    """Adam's moments, followed in the format and in FP32 over gradients that scatter about the
    measured ones.
    """
    betas = optimizer.param_groups[0].get("betas")
    if not betas or not gradients:
        return []
    eps = float(optimizer.param_groups[0].get("eps", 0.0))
    flat = torch.cat(gradients)
    every = max(1, flat.numel() // MOST_ELEMENTS)
    base = flat[::every]
    moments: list[tuple[str, float, Callable[[torch.Tensor], torch.Tensor]]] = [
        ("exp_avg", float(betas[0]), lambda gradient: gradient),
        ("exp_avg_sq", float(betas[1]), torch.square),
    ]
    made = []
    for name, beta, of in moments:
        draw = torch.Generator().manual_seed(SEED)
        exact = of(base).clone()  # where it would be by then
        held = target.rounded(exact)
        for _ in range(MOMENT_STEPS):
            scatter = torch.randn(base.shape, generator=draw).to(base.device)
            gradient = base * (1 + _SCATTER * scatter)
            exact = beta * exact + (1 - beta) * of(gradient)
            held = target.rounded(beta * held + (1 - beta) * of(gradient))
        if name == "exp_avg_sq":  # what is divided by it counts, small elements as much as large
            held, exact = held.sqrt() + eps, exact.sqrt() + eps
            held, exact = exact / held, torch.ones_like(exact)
        made.append(StateLoss(name, target.name, _error([held], [exact])))
    return made
