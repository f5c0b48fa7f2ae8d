"""What the monitor costs: CPU time of a training step with and without it, in interleaved pairs.

Usage: PYTHONPATH=build/release/python .venv/bin/python bench/monitor.py [--pairs 20]

Prints one JSON line a model: the median ratio of the pairs with its 95 % interval (bootstrap), and
the same of two unwatched models as the noise of the machine. CPU time of the training thread, not
wall time: other load on the machine does not count.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time

import torch
from mpnanny import MixedPrecisionNanny
from torch import nn


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.act, self.down = (
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Linear(4 * width, width),
        )
        self.heads = heads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).chunk(3, -1)
        )
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(self.act(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, width: int = 256, depth: int = 4, vocabulary: int = 512) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, 4) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)).flatten(0, 1)


def conv_net() -> nn.Module:
    layers: list[nn.Module] = []
    channels = 3
    for width in (16, 32, 64):
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width)]
        layers += [nn.ReLU(inplace=True), nn.MaxPool2d(2)]
        channels = width
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 4 * 4, 10))


def gpt_batch() -> tuple[torch.Tensor, torch.Tensor]:
    tokens = torch.randint(0, 512, (8, 65))
    return tokens[:, :-1], tokens[:, 1:].flatten()


def conv_batch() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,))


def block_time(model: nn.Module, optimizer: torch.optim.Optimizer, make_batch, steps: int) -> float:
    start = time.thread_time()
    for _ in range(steps):
        x, y = make_batch()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return (time.thread_time() - start) / steps


def interval(values: list[float]) -> tuple[float, float]:
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(2000))
    return medians[50], medians[1949]


def measure(name: str, make, make_batch, pairs: int, steps: int, every: int, folder: str) -> None:
    plain, twin, watched = make(), make(), make()
    models = [(m, torch.optim.AdamW(m.parameters(), lr=1e-4)) for m in (plain, twin, watched)]
    for model, optimizer in models:
        block_time(model, optimizer, make_batch, steps)
    nanny = MixedPrecisionNanny(
        watched, models[2][1], trace_interval=every, db=f"{folder}/{name}.db", quiet=True
    )
    ratios, noise, plain_times = [], [], []
    for pair in range(pairs):
        order = [0, 1, 2] if pair % 2 == 0 else [2, 1, 0]
        times = {i: block_time(*models[i], make_batch, steps) for i in order}
        ratios.append(times[2] / times[0])
        noise.append(times[1] / times[0])
        plain_times.append(times[0])
    nanny.close()
    parameters = sum(p.numel() for p in plain.parameters())
    low, high = interval(ratios)
    noise_low, noise_high = interval(noise)
    print(
        json.dumps(
            {
                "model": name,
                "parameters": parameters,
                "step_ms": round(statistics.median(plain_times) * 1e3, 2),
                "trace_interval": every,
                "pairs": pairs,
                "ratio": round(statistics.median(ratios), 4),
                "ratio_95": [round(low, 4), round(high, 4)],
                "same_against_same": round(statistics.median(noise), 4),
                "same_95": [round(noise_low, 4), round(noise_high, 4)],
            }
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--steps", type=int, default=10, help="steps of a block")
    parser.add_argument("--interval", type=int, default=100, help="trace_interval")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        common = (options.pairs, options.steps, options.interval, folder)
        measure("gpt", Gpt, gpt_batch, *common)
        measure("conv", conv_net, conv_batch, *common)


if __name__ == "__main__":
    main()
