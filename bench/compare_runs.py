"""What `compare_runs` says of pairs of real trainings: the table of docs/compare_runs.md.

    PYTHONPATH=build/release/python .venv/bin/python bench/compare_runs.py [--out DIR] [--steps N]

Trains a small GPT, an MLP and a CNN on the CPU, each in FP32, in BF16 under autocast, in pure BF16
(weights and optimizer too), in FP16 under autocast with a loss scaler, in FP32 again with another
seed of weights and data, and with two planted faults; every run is recorded by the monitor. Then
compares each with the FP32 run and prints what was found, as a Markdown table.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import mpnanny
import torch
from torch import Tensor, nn

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build/release/bin/mpnanny"
Data = Callable[[torch.Generator], tuple[Tensor, Tensor]]


class Block(nn.Module):
    """A transformer's block with a causal mask."""

    def __init__(self, width: int, heads: int) -> None:
        """`width` features in `heads` heads."""
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Attention and a feed-forward part, each beside the residual."""
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    """A character model of 4 blocks, 64 wide."""

    def __init__(self) -> None:
        """With its own position table."""
        super().__init__()
        self.embed, self.place = nn.Embedding(32, 64), nn.Embedding(32, 64)
        self.blocks = nn.ModuleList(Block(64, 4) for _ in range(4))
        self.norm, self.head = nn.LayerNorm(64), nn.Linear(64, 32)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of each next token."""
        x = self.embed(tokens) + self.place(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)).flatten(0, 1)


def text(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Sequences with a rule (each token is the sum of the two before it, at times a random one)."""
    tokens = torch.randint(0, 32, (16, 33), generator=generator)
    for i in range(2, 33):
        rule = (tokens[:, i - 1] + tokens[:, i - 2]) % 32
        keep = torch.rand(16, generator=generator) < 0.9
        tokens[:, i] = torch.where(keep, rule, tokens[:, i])
    return tokens[:, :-1], tokens[:, 1:].reshape(-1)


def mlp() -> nn.Module:
    """Five linear layers with norms."""
    layers: list[nn.Module] = [nn.Linear(32, 128)]
    for _ in range(3):
        layers += [nn.LayerNorm(128), nn.ReLU(), nn.Linear(128, 128)]
    return nn.Sequential(*layers, nn.ReLU(), nn.Linear(128, 10))


def points(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Ten classes, told by a fixed random projection."""
    x = torch.randn(64, 32, generator=generator)
    plane = torch.randn(32, 10, generator=torch.Generator().manual_seed(99))
    return x, (x @ plane).argmax(1)


def cnn() -> nn.Module:
    """Three convolutions with batch norm."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.Conv2d(32, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 16, 10),
    )


def pictures(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Ten noisy bars at ten places."""
    label = torch.randint(0, 10, (32,), generator=generator)
    x = torch.randn(32, 1, 16, 16, generator=generator)
    x[torch.arange(32), 0, label] += 1.5
    return x, label


MODELS: dict[str, tuple[Callable[[], nn.Module], Data]] = {
    "gpt": (Gpt, text),
    "mlp": (mlp, points),
    "cnn": (cnn, pictures),
}


def train(model_name: str, arm: str, steps: int, folder: Path) -> Path:
    """One recorded training; returns its database."""
    make, data = MODELS[model_name]
    seed = 7 if "seed" in arm else 1
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = make()
    pure = torch.bfloat16 if "pure" in arm else torch.float32
    model = model.to(pure)
    rate = 1e-3 * (10 if arm == "fp32, lr x10" else 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    low = torch.bfloat16 if "bf16 autocast" in arm else torch.float16 if "fp16" in arm else None
    scaler = torch.amp.GradScaler("cpu", enabled="scaler" in arm)
    path = folder / f"{model_name} {arm}.db".replace(" ", "_")
    nanny = mpnanny.MixedPrecisionNanny(
        model, optimizer=optimizer, trace_interval=10, db=path, quiet=True, name=arm
    )
    for step in range(steps):
        with nanny.step(step) as s:
            x, y = data(generator)
            x = x.to(pure) if x.is_floating_point() else x
            if arm == "bf16 autocast, a gain of 1.5 in one layer" and step == steps // 2:
                with torch.no_grad():
                    kinds = (nn.Linear, nn.Conv2d)
                    [m for m in model.modules() if isinstance(m, kinds)][-2].weight.mul_(1.5)
            with torch.autocast("cpu", low, enabled=low is not None):
                loss = nn.functional.cross_entropy(model(x).float(), y)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            s.log(loss=loss)
    nanny.close()
    return path


ARMS = [
    "fp32",
    "fp32 again",
    "bf16 autocast",
    "fp16 autocast, scaler",
    "pure bf16",
    "fp32, another seed",
    "bf16 autocast, another seed",
    "fp32, lr x10",
    "bf16 autocast, a gain of 1.5 in one layer",
]


def main() -> None:
    """Trains and compares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    folder = options.out or Path(tempfile.mkdtemp(prefix="mpnanny-compare-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(
        "| model | b (a is fp32) | verdict | final loss a, b | worse by | first difference | "
        "tensors that part | step time b/a |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name in options.models:
        for arm in ARMS:
            path = folder / f"{name} {arm}.db".replace(" ", "_")
            if not path.exists():
                train(name, arm, options.steps, folder)
            if arm == "fp32":
                continue
            reference = folder / f"{name}_fp32.db"
            command = [PROGRAM, "compare", reference, path, "--format", "json"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(done.stderr)
            print(row(name, arm, json.loads(done.stdout)), flush=True)


def row(name: str, arm: str, answer: dict) -> str:  # type: ignore[type-arg]
    """One line of the table."""
    first, final = answer["first_difference"], answer["final"]
    where = "none"
    if first:
        where = f"step {first['step']}: {first['layer'] or ''} {first['metric']}"
    parted = f"{answer['parted_tensors']} of {answer['compared_tensors']}"
    ratio = answer["gain"]["step_time"]["ratio"]
    worse = "not known"
    loss = "not known"
    if final:
        worse = f"{100 * final['worse_by']:.2g} % ± {100 * final['uncertainty']:.2g} %"
        loss = f"{final['a']:.4g}, {final['b']:.4g}"
    cells = [name, arm, answer["verdict"], loss, worse, where, parted, str(ratio)]
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
