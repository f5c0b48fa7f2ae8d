"""Synthetic batches for the models of public libraries: each has something to learn in it."""

from __future__ import annotations

import torch
from torch import Tensor


def fixed(seed: int, *shape: int) -> Tensor:
    """The same normal values in each run, whatever was drawn before."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def images(rows: int, side: int, classes: int = 4, channels: int = 3) -> tuple[Tensor, Tensor]:
    """A noisy pattern for each class."""
    label = torch.randint(classes, (rows,))
    pattern = fixed(7, classes, channels, side, side)
    return pattern[label] + 0.7 * torch.randn(rows, channels, side, side), label


def smooth_images(rows: int, side: int, channels: int = 3) -> Tensor:
    """A bright spot somewhere, in [-1, 1]."""
    at = torch.linspace(-1, 1, side)
    x, y, size = torch.rand(3, rows, 1, 1).mul(1.2).sub(0.6).unbind()
    spot = torch.exp(-((at - x) ** 2 + (at[:, None] - y) ** 2) / (0.1 + 0.2 * (size + 0.6)))
    tint = torch.rand(rows, channels, 1, 1)
    return (2 * tint * spot.unsqueeze(1) - 1).clamp(-1, 1)


def sentences(rows: int, length: int, words: int, first: int = 0) -> Tensor:
    """Each word follows from the one before, mostly. Words below `first` do not occur."""
    count = words - first
    word = torch.randint(count, (rows,))
    out = []
    for _ in range(length):
        noise = torch.randint(count, (rows,))
        word = torch.where(torch.rand(rows) < 0.1, noise, (word * 3 + 5) % count)
        out.append(word)
    return torch.stack(out, 1) + first


def padding(rows: int, length: int) -> Tensor:
    """An attention mask: sentences of different lengths."""
    ends = torch.randint(length // 2, length + 1, (rows,))
    return (torch.arange(length) < ends[:, None]).long()


def waves(rows: int, length: int) -> tuple[Tensor, Tensor]:
    """Tones, and which of four each is."""
    label = torch.randint(4, (rows,))
    at = torch.arange(length) / length
    phase = torch.rand(rows, 1)
    tone = torch.sin(6.2832 * (at * (4.0 + 6.0 * label[:, None]) + phase))
    return tone + 0.1 * torch.randn(rows, length), label


def visits(rows: int, tables: int, entries: int) -> tuple[Tensor, Tensor, list[Tensor], Tensor]:
    """What a recommender sees: dense columns, bags of ids with their offsets, a click."""
    dense = torch.rand(rows, 6).mul(20).log1p()
    ids, score = [], dense.mean(1) - 2.0
    offsets = torch.arange(rows) * 3
    for table in range(tables):
        bag = (torch.rand(rows, 3) ** 3 * entries).long().clamp(max=entries - 1)
        score = score + fixed(20 + table, entries)[bag].mean(1)
        ids.append(bag.flatten())
    return dense, offsets, ids, (torch.rand(rows) < score.sigmoid()).float()
