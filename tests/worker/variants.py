"""Small models, each with one thing that an exported program can hold beside plain layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Small(nn.Module):
    """Three layers; the base of what is done to a model as a whole."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.enter = nn.Linear(8, width)
        self.norm = nn.LayerNorm(width)
        self.leave = nn.Linear(width, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.leave(torch.relu(self.norm(self.enter(x))))


class Regions(nn.Module):
    """Autocast in BF16 around one layer, no gradients around another, FP32 inside of both."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 16)
        self.third, self.leave = nn.Linear(16, 16), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.first(x)
            with torch.autocast("cpu", enabled=False):
                y = self.second(y.float())
        with torch.no_grad():
            z = self.third(y).sigmoid()
        return self.leave(y * z)


class Without(nn.Module):
    """A region without gradients, and none without casts."""

    def __init__(self) -> None:
        super().__init__()
        self.teacher, self.student = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            wanted = self.teacher(x).softmax(-1)
        return self.student(x).log_softmax(-1), wanted


class Branches(nn.Module):
    """torch.cond on a number that the input decides, each branch with a layer of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(8, 8)
        self.positive, self.negative = nn.Linear(8, 8), nn.Linear(8, 8)

    def one(self, y: Tensor) -> Tensor:
        return self.positive(y).relu()

    def other(self, y: Tensor) -> Tensor:
        return self.negative(y).tanh()

    def forward(self, x: Tensor) -> Tensor:
        y = self.enter(x)
        if torch.compiler.is_exporting():
            return torch.cond(x.sum() > 0, self.one, self.other, (y,))
        return self.one(y) if x.sum() > 0 else self.other(y)  # cond takes no hooks on its modules


class Counting(nn.Module):
    """BatchNorm that is trained, and a buffer of its own that grows."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.norm = nn.Linear(8, 16), nn.BatchNorm1d(16)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.seen.add_(1)
        return self.norm(self.enter(x)) * self.seen


class Tied(nn.Module):
    """One weight in two layers, one layer called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.mix = nn.Embedding(20, 8), nn.Linear(8, 8)
        self.head = nn.Linear(8, 20, bias=False)
        self.head.weight = self.words.weight

    def forward(self, words: Tensor) -> Tensor:
        return self.head(self.mix(self.mix(self.words(words)).tanh()))


class Plain(nn.Module):
    """Arguments that are no tensors: a number, None, and one by name."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(
        self, x: Tensor, scale: float, mask: Tensor | None = None, offset: Tensor | None = None
    ) -> Tensor:
        y = self.layer(x) * scale
        if mask is not None:
            y = y.masked_fill(mask, 0.0)
        if offset is not None:
            y = y + offset
        return y


class Nested(nn.Module):
    """A dict with a list in it, of numbers of floating point and one whole one."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 6)

    def forward(self, x: Tensor) -> dict[str, list[Tensor]]:
        y = self.layer(x)
        return {"parts": [y[:, :2], y[:, 2:]], "best": [y.argmax(1), y.amax(1)]}


class Listed(nn.Module):
    """A list of tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 6)

    def forward(self, x: Tensor) -> list[Tensor]:
        return list(self.layer(x).split(2, 1))


class InPlace(nn.Module):
    """Changes views of values that modules have given, and a part of its own input's copy."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        y = self.act(self.first(x))
        y[:, 0] = 1.0
        y[:, 2:4].mul_(3.0)
        z = y.t()
        z.add_(0.5)
        copy = x.clone()
        copy.select(1, 1).zero_()
        copy.view(-1)[::3] += 2
        return self.second(y).sub_(copy)


class Once(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layer(x).tanh()


class Control(nn.Module):
    """What only scripted code keeps: loops, conditions, early returns, lists that grow."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = nn.ModuleList([Once(), Once(), Once()])
        self.leave = nn.Linear(8, 4)

    def halved(self, x: Tensor) -> Tensor:
        rounds = 0
        while bool(x.abs().max() > 1.0):
            x = x / 2
            rounds += 1
            if rounds > 20:
                break
        return x

    def forward(self, x: Tensor, depth: int = 2) -> Tensor:
        if x.dim() != 2:
            return x
        seen: list[Tensor] = []
        for at, step in enumerate(self.steps):
            x = step(x)
            if at < depth:
                seen.append(x)
        total = torch.zeros_like(x)
        for each in seen:
            total += each
        for at in range(depth):
            if at % 2 == 0:
                total = total * 0.5
                continue
            total = total + x
        x = self.halved(total)
        if float(x.sum()) > 1e6:
            return x
        return self.leave(x)
