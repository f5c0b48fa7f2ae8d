"""Functions as people write them, to be found by a line and called with inputs made by trying."""

from __future__ import annotations

import math

import a_package_that_nobody_has  # noqa: F401
import torch
import torch.nn.functional as F
from torch import nn

EPS = 1e-7


def dice_loss(pred, target, smooth=1.0):
    pred, target = pred.flatten(1), target.flatten(1).float()
    overlap = (pred * target).sum(1)
    return 1 - ((2 * overlap + smooth) / (pred.sum(1) + target.sum(1) + smooth)).mean()  # dice


def focal(logits, labels, gamma: float = 2.0):
    p = torch.softmax(logits, dim=-1)
    picked = p.gather(1, labels[:, None]).squeeze(1)
    return -((1 - picked) ** gamma * torch.log(picked)).mean()  # focal


def masked_mean(x, mask):
    weights = mask.unsqueeze(-1).to(x.dtype)
    return (x * weights).sum(1) / weights.sum(1)  # masked_mean


class Rms(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)  # rms
        return x * scale * self.weight


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        assert dim % heads == 0
        self.heads, self.width = heads, dim // heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, self.width).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.width)  # attention
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e4)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


def rotate(x, positions):
    half = x.shape[-1] // 2
    rate = 10000.0 ** (-torch.arange(half, device=x.device) / half)
    angle = positions[..., None].float() * rate  # rotate
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)


def schedule(t, timesteps: int = 1000):
    steps = torch.linspace(0, timesteps, timesteps + 1)
    alpha = torch.cos((steps / timesteps + 0.008) / 1.008 * math.pi / 2) ** 2
    return (1 - alpha[1:] / alpha[:-1]).clamp(max=0.999)[t.long() % timesteps]  # schedule


class Quantizer(nn.Module):
    def __init__(self, codes=32, dim=16):
        super().__init__()
        self.book = nn.Embedding(codes, dim)

    def distances(self, z):
        flat = z.reshape(-1, self.book.weight.shape[1])
        return (
            flat.pow(2).sum(1, keepdim=True)
            - 2 * flat @ self.book.weight.t()  # quantizer
            + self.book.weight.pow(2).sum(1)
        )

    def forward(self, z):
        nearest = self.distances(z).argmin(1)
        return self.book(nearest).view_as(z)


def conv_stats(features):
    n, c, h, w = features.size()
    flat = features.view(n, c, h * w)
    return flat @ flat.transpose(1, 2) / (c * h * w)  # gram


def pairwise_iou(a, b):
    low = torch.max(a[:, None, :2], b[None, :, :2])
    high = torch.min(a[:, None, 2:4], b[None, :, 2:4])
    inter = (high - low).clamp(min=0).prod(-1)
    area = (a[:, 2] - a[:, 0]) * (a[:, 3] - a[:, 1])
    other = (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
    return inter / (area[:, None] + other[None] - inter + EPS)  # iou


def smoothed(logits, classes: int, alpha=0.1):
    even = torch.full_like(logits, alpha / classes)
    return (even * F.log_softmax(logits, -1)).sum(-1)  # smoothed


def lookup(table, index):
    return table[index].norm(dim=-1)  # lookup


class Helper:
    @staticmethod
    def normalise(x):
        return (x - x.mean()) / (x.std() + EPS)  # static


def nested(x):
    def inner(y):
        return y.exp().sum()  # nested

    return inner(x)


# --- what cannot be run alone ---


def generator(x):
    yield x * 2  # generator


async def coroutine(x):
    return x * 2  # coroutine


def needs_a_file(x):
    with open("/nowhere/statistics.txt") as file:
        return x * float(file.read())  # file


def needs_an_object(batch):
    return batch.boxes.gt_instances[0].labels.sum()  # object


def never_ends(x):
    while True:
        x = x + 1  # endless


def main():
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--file", required=True)
    x = torch.ones(2) * len(parser.parse_args(["--other"]).file)
    return x * 2  # script


SCALE = torch.ones(3) * 2  # top
