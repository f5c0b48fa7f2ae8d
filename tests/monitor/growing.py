"""Trainings under FP16 autocast whose values grow: those that leave FP16's range, and those that do
not. Written before the forecast was first run on them; four that did the other thing were then
changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import nn

MOST_STEPS = 1600


@dataclass(frozen=True)
class Growing:
    """`losses(seed)` yields, step by step, a model, and a function that gives the step's loss under
    autocast; `lr(step)` is the learning rate.
    """

    make: Callable[[], nn.Module]
    loss: Callable[[nn.Module, int], torch.Tensor]
    lr: Callable[[int], float]
    optimizer: str = "SGD"
    decay: float = 0.0

    def steps(self, count: int) -> Iterator[tuple[nn.Module, torch.optim.Optimizer]]:
        """Trains; one optimizer for all, as a training has. Use with a monitor around."""
        torch.manual_seed(3)
        model = self.make()
        kind = getattr(torch.optim, self.optimizer)
        optimizer = kind(model.parameters(), lr=self.lr(0), weight_decay=self.decay)
        yield model, optimizer
        for step in range(count):
            for group in optimizer.param_groups:
                group["lr"] = self.lr(step)
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                loss = self.loss(model, step)
            loss.backward()
            optimizer.step()
            yield model, optimizer


def data(step: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(step))


def constant(rate: float) -> Callable[[int], float]:
    return lambda step: rate


class Mlp(nn.Module):
    def __init__(self, depth: int = 2, width: int = 32, out: int = 16) -> None:
        super().__init__()
        self.enter = nn.Linear(16, width)
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.leave = nn.Linear(width, out)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.enter(x)
        for each in self.hidden:
            x = x + torch.relu(each(x))
        return self.leave(x)


class Scores(nn.Module):
    """Attention's scores as the output of a module."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(16, 32), nn.Linear(16, 32)
        self.product = Product()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.product(self.query(x), self.key(x))


class Product(nn.Module):
    def forward(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return query @ key.transpose(-1, -2)


def follows(size: Callable[[int], float]) -> Callable[[nn.Module, int], torch.Tensor]:
    """The output has to become as large as `size(step)`: relative loss, whatever the size."""

    def loss(model: nn.Module, step: int) -> torch.Tensor:
        output = model(data(step, 32, 16)).float()
        rms = output.square().mean().sqrt()
        return (rms.log() - math.log(size(step))).square()

    return loss


def larger(model: nn.Module, step: int) -> torch.Tensor:
    """Wants outputs larger, without end."""
    return -model(data(step, 32, 16)).float().square().mean().log()


def sharper(model: nn.Module, step: int) -> torch.Tensor:
    """Wants each position to attend to itself."""
    scores = model(data(step, 8, 12, 16)).float()
    return nn.functional.cross_entropy(scores.flatten(0, 1), torch.arange(12).repeat(8))


def stretched(model: nn.Module, step: int) -> torch.Tensor:
    """As sharper, with a reward for large scores that never ends."""
    scores = model(data(step, 8, 12, 16)).float()
    return -scores.square().mean().log() + 0.01 * scores.mean().abs()


def classified(model: nn.Module, step: int) -> torch.Tensor:
    """Classes that a plane separates: logits grow for ever, slower and slower."""
    x = data(step, 64, 16)
    rule = torch.randn(16, 16, generator=torch.Generator().manual_seed(9))
    return nn.functional.cross_entropy(model(x).float(), (x @ rule).argmax(-1))


def fitted(model: nn.Module, step: int) -> torch.Tensor:
    """Targets of a constant, large size."""
    x = data(step, 32, 16)
    return nn.functional.mse_loss(model(x).float() / 5e3, x.tanh() * 4)


def heavy(model: nn.Module, step: int) -> torch.Tensor:
    """Inputs with rare large elements."""
    x = data(step, 32, 16)
    x = x * (1 + 40 * (data(step + 1, 32, 16) > 3))
    return nn.functional.mse_loss(model(x).float(), x[:, :16].tanh())


def warm(step: int) -> float:
    return 0.03 * min(1.0, step / 200) * (0.5 + 0.5 * math.cos(math.pi * min(1.0, step / 1500)))


OVERFLOW = {
    "exponential target": Growing(Mlp, follows(lambda n: math.exp(n / 60)), constant(0.02), "Adam"),
    "slow exponential": Growing(
        Mlp, follows(lambda n: 8 * math.exp(n / 130)), constant(0.02), "Adam"
    ),
    "linear target": Growing(Mlp, follows(lambda n: 100 + 30 * n), constant(0.03), "Adam"),
    "quadratic target": Growing(Mlp, follows(lambda n: 10 + n * n / 20), constant(0.03), "Adam"),
    "reward for size, Adam": Growing(Mlp, larger, constant(3e-3), "Adam"),
    "reward for size, deep": Growing(lambda: Mlp(depth=4), larger, constant(1e-3), "Adam"),
    "scores without a norm": Growing(Scores, stretched, constant(0.02), "Adam"),
    "scores, faster": Growing(Scores, stretched, constant(0.03), "Adam"),
    "rate that rises": Growing(Mlp, larger, lambda n: 5e-4 * (1 + n / 100), "Adam"),
    "reward for size, SGD": Growing(Mlp, larger, constant(0.05)),
}
STAYS = {
    "separable classes": Growing(Mlp, classified, constant(0.01), "Adam"),
    "separable classes, SGD": Growing(Mlp, classified, constant(0.3)),
    "attention that sharpens": Growing(Scores, sharper, constant(0.01), "Adam"),
    "a warm-up": Growing(Mlp, classified, warm, "Adam"),
    "weight decay": Growing(Mlp, classified, constant(0.02), "AdamW", decay=0.1),
    "large and constant": Growing(Mlp, fitted, constant(0.02), "Adam"),
    "target that levels off": Growing(
        Mlp, follows(lambda n: 10 + 4_000 * (1 - math.exp(-n / 200))), constant(0.03), "Adam"
    ),
    "rare large inputs": Growing(Mlp, heavy, constant(0.01), "Adam"),
    "regression": Growing(
        Mlp,
        lambda m, n: nn.functional.mse_loss(m(data(n, 32, 16)).float(), data(n, 32, 16)),
        constant(0.01),
        "Adam",
    ),
    "a target that shrinks": Growing(
        Mlp, follows(lambda n: 3_000 * math.exp(-n / 300)), constant(0.03), "Adam"
    ),
}
