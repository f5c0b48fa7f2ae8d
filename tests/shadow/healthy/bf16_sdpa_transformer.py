"""A small causal transformer: FP32 weights, BF16 autocast, SDPA, warm-up from zero."""

import math
import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(14)
REF = bool(os.environ.get("REF"))
VOCAB, LENGTH, WIDTH, HEADS = 20, 24, 48, 4
STEPS, WARMUP, MICRO = 90, 10, 2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH), nn.Dropout(0.05)
        )

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(mixed.transpose(1, 2).reshape(b, t, WIDTH))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(VOCAB, WIDTH)
        self.position = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, tokens):
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def lr_factor(step):
    if step < WARMUP:
        return step / WARMUP
    return 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP)))


def batch(size, generator):
    """Arithmetic sequences modulo the vocabulary, with a random start and stride."""
    start = torch.randint(0, VOCAB, (size, 1), generator=generator)
    stride = torch.randint(1, 6, (size, 1), generator=generator)
    return (start + stride * torch.arange(LENGTH + 1)) % VOCAB


def main():
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_factor)
    generator = torch.Generator().manual_seed(2)
    tail = []
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for _ in range(MICRO):
            tokens = batch(16, generator)
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not REF):
                logits = model(tokens[:, :-1])
            loss = nn.functional.cross_entropy(
                logits.float().flatten(0, 1), tokens[:, 1:].flatten()
            )
            (loss / MICRO).backward()
            total += loss.item() / MICRO
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        tail = (tail + [total])[-10:]
        if step % 15 == 0:
            print(f"step {step} loss {total:.4f} lr {schedule.get_last_lr()[0]:.5f}")
    print(f"final loss {sum(tail) / len(tail):.4f}")


if __name__ == "__main__":
    main()
