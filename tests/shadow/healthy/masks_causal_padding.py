"""A two-layer decoder on padded sequences; one layer masks with -inf, the other with finfo.min."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(4)
REF = bool(os.environ.get("REF"))
VOCAB, LENGTH, WIDTH, HEADS = 16, 20, 32, 4
PAD = 0


class Attention(nn.Module):
    def __init__(self, fill):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)
        self.fill = fill

    def forward(self, x, blocked):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / (WIDTH // HEADS) ** 0.5
        if self.fill == "inf":
            scores = scores.masked_fill(blocked, float("-inf"))
            weights = scores.softmax(-1, dtype=torch.float32).to(v.dtype)
        else:
            bias = torch.zeros(blocked.shape, dtype=scores.dtype)
            bias = bias.masked_fill(blocked, torch.finfo(scores.dtype).min)
            weights = (scores + bias).softmax(-1, dtype=torch.float32).to(v.dtype)
        mixed = (weights @ v).transpose(1, 2).reshape(b, t, WIDTH)
        return self.proj(mixed)


class Block(nn.Module):
    def __init__(self, fill):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.attention = Attention(fill)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 64), nn.ReLU(inplace=True), nn.Linear(64, WIDTH))

    def forward(self, x, blocked):
        x = x + self.attention(self.norm1(x), blocked)
        return x + self.mlp(self.norm2(x))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(VOCAB, WIDTH, padding_idx=PAD)
        self.position = nn.Parameter(0.1 * torch.randn(LENGTH, WIDTH))
        self.blocks = nn.ModuleList([Block("inf"), Block("min")])
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, tokens):
        t = tokens.shape[1]
        causal = torch.ones(t, t, dtype=torch.bool).triu(1)
        padding = (tokens == PAD)[:, None, None, :]
        blocked = causal | padding
        x = self.token(tokens) + self.position[:t]
        for block in self.blocks:
            x = block(x, blocked)
        return self.head(x)


def batch(size, generator):
    """Sequences that repeat a motif of four tokens, padded on the right."""
    motif = torch.randint(1, VOCAB, (size, 4), generator=generator)
    tokens = motif.repeat(1, LENGTH // 4 + 1)[:, : LENGTH + 1]
    lengths = torch.randint(8, LENGTH + 1, (size, 1), generator=generator)
    return torch.where(torch.arange(LENGTH + 1) <= lengths, tokens, PAD)


def main():
    model = Decoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    generator = torch.Generator().manual_seed(9)
    tail = []
    for step in range(150):
        tokens = batch(32, generator)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not REF):
            logits = model(tokens[:, :-1])
        targets = tokens[:, 1:]
        loss = nn.functional.cross_entropy(
            logits.float().flatten(0, 1), targets.flatten(), ignore_index=PAD
        )
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        tail = (tail + [loss.item()])[-10:]
        if step % 25 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {sum(tail) / len(tail):.4f}")


if __name__ == "__main__":
    main()
