"""Attention with biased keys and FP32 RoPE tables; blocks are checkpointed under BF16 autocast."""

import os

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.set_num_threads(1)
torch.manual_seed(16)
REF = bool(os.environ.get("REF"))
VOCAB, LENGTH, WIDTH, HEADS = 16, 20, 32, 4


def rotate(x, cos, sin):
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1).to(x.dtype)


class Block(nn.Module):
    def __init__(self, rope):
        super().__init__()
        self.rope = rope
        self.norm = nn.LayerNorm(WIDTH)
        self.query = nn.Linear(WIDTH, WIDTH)
        self.key = nn.Linear(WIDTH, WIDTH)
        self.value = nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        dim = WIDTH // HEADS
        angles = torch.outer(
            torch.arange(LENGTH, dtype=torch.float32),
            10000.0 ** (-torch.arange(0, dim, 2, dtype=torch.float32) / dim),
        )
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, x):
        b, t, _ = x.shape
        normed = self.norm(x)
        q, k, v = (
            layer(normed).view(b, t, HEADS, -1).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        if self.rope:
            q, k = rotate(q, self.cos, self.sin), rotate(k, self.cos, self.sin)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(mixed.transpose(1, 2).reshape(b, t, WIDTH))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(VOCAB, WIDTH)
        self.blocks = nn.ModuleList([Block(True), Block(False), Block(True)])
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, tokens):
        x = self.token(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(x)


def main():
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    tail = []
    for step in range(100):
        motif = torch.randint(0, VOCAB, (24, 5))
        tokens = motif.repeat(1, 5)[:, : LENGTH + 1]
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not REF):
            logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        tail = (tail + [loss.item()])[-10:]
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {sum(tail) / len(tail):.4f}")


if __name__ == "__main__":
    main()
