"""Causal language model on a toy grammar with padded sequences, under BF16 autocast."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(17)
MIXED = not os.environ.get("REF")

VOCABULARY, LENGTH, WIDTH, HEADS, PAD = 24, 20, 32, 4, 0


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH)
        )

    def forward(self, x, padding):
        b, t, _ = x.shape
        qkv = self.qkv(self.before(x)).view(b, t, 3, HEADS, WIDTH // HEADS)
        q, k, v = (part.transpose(1, 2) for part in qkv.unbind(2))
        scores = q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5
        future = torch.ones(t, t, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(future, float("-inf"))
        scores = scores.masked_fill(padding[:, None, None, :], torch.finfo(scores.dtype).min)
        mixed = (F.softmax(scores, dim=-1) @ v).transpose(1, 2).reshape(b, t, WIDTH)
        x = x + self.out(mixed)
        return x + self.mlp(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, WIDTH, padding_idx=PAD)
        self.place = nn.Parameter(0.02 * torch.randn(LENGTH, WIDTH))
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        x = self.token(tokens) + self.place[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x, tokens == PAD)
        return self.head(x)


def sentences(generator, size=32):
    tokens = torch.zeros(size, LENGTH + 1, dtype=torch.long)
    tokens[:, :2] = torch.randint(1, VOCABULARY, (size, 2), generator=generator)
    for t in range(2, LENGTH + 1):
        tokens[:, t] = tokens[:, t - 2] % (VOCABULARY - 1) + 1
    blank = torch.randint(0, LENGTH // 2, (size, 1), generator=generator)
    tokens = tokens.masked_fill(torch.arange(LENGTH + 1) < blank, PAD)
    tokens[0] = PAD
    return tokens


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
stream = torch.Generator().manual_seed(23)
tail = []
for step in range(100):
    tokens = sentences(stream)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=MIXED):
        logits = model(tokens[:, :-1])
    loss = F.cross_entropy(logits.float().transpose(1, 2), tokens[:, 1:], ignore_index=PAD)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    tail.append(loss.item())
    if step % 20 == 0:
        print(f"step {step} loss {loss.item():.4f}")
print(f"mean of the last ten losses {sum(tail[-10:]) / 10:.4f}")
