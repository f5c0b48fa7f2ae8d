"""The demo's training run: a small character-level transformer in FP16 on the CPU.

It looks healthy for a while, and then the loss is NaN. Nothing is injected: the gated feed-forward
block multiplies large numbers, nothing bounds the residual stream, and the output projection grows
until it no longer fits into FP16. In FP32 the very same script trains on (`--precision fp32`).

Usage: demo_training.py [--steps N] [--precision fp16|bf16|fp32] [--db FILE]
"""

import argparse
import json
import pathlib

import torch
import torch.nn.functional as F
from mpnanny import MixedPrecisionNanny
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.float()
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        scores = q @ k.transpose(-2, -1) * (width // self.heads) ** -0.5
        mask = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        weights = F.softmax(scores.masked_fill(mask, float("-inf")), dim=-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))


class FeedForward(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.wi = nn.Linear(width, 4 * width, bias=False)
        self.gate = nn.Linear(width, 4 * width, bias=False)
        self.wo = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.wo(F.relu(self.wi(x)).square() * self.gate(x))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.attn = RMSNorm(width), Attention(width, heads)
        self.norm2, self.ffn = RMSNorm(width), FeedForward(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.ffn(self.norm2(x))


class CharModel(nn.Module):
    def __init__(self, vocabulary: int, width: int = 64, heads: int = 4, depth: int = 3) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = RMSNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def corpus() -> tuple[torch.Tensor, int]:
    """Text that every Python brings along: the source of argparse, as character ids."""
    text = pathlib.Path(argparse.__file__).read_text(encoding="utf-8")
    alphabet = {character: i for i, character in enumerate(sorted(set(text)))}
    return torch.tensor([alphabet[character] for character in text]), len(alphabet)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=110)
    parser.add_argument("--precision", choices=("fp16", "bf16", "fp32"), default="fp16")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--db", default="nanny_logs/metrics.db")
    args = parser.parse_args()

    torch.manual_seed(0)
    data, vocabulary = corpus()
    model = CharModel(vocabulary)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.0)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.02, total_iters=50)
    scaler = torch.amp.GradScaler("cpu", enabled=args.precision == "fp16")
    dtype = torch.float16 if args.precision == "fp16" else torch.bfloat16
    nanny = MixedPrecisionNanny(
        model, optimizer=optimizer, scaler=scaler, trace_interval=5, db=args.db
    )

    for step in range(args.steps):
        start = torch.randint(len(data) - 33, (16,))
        batch = torch.stack([data[s : s + 33] for s in start])
        with nanny.step(step) as record:
            with torch.autocast("cpu", dtype=dtype, enabled=args.precision != "fp32"):
                logits = model(batch[:, :-1])
                loss = F.cross_entropy(logits.flatten(0, 1).float(), batch[:, 1:].flatten())
            optimizer.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            record.log(loss=loss, lr=warmup.get_last_lr()[0])
            warmup.step()
        if step % 10 == 0:
            print(json.dumps({"step": step, "loss": loss.item(), "scale": scaler.get_scale()}))
    nanny.close()


if __name__ == "__main__":
    main()
