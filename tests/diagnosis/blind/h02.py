"""A causal character model in half precision with hand-written attention."""

import os

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(1)
HALF = not os.environ.get("REF")
VOCAB, WIDTH, HEADS, LENGTH, BATCH, STEPS = 16, 32, 2, 16, 16, 120
SCALE = 1024.0


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        future = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
        self.register_buffer("future", future)

    def forward(self, x, padding):
        b, n, _ = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        scores = (q * (WIDTH // HEADS) ** -0.5) @ k.transpose(-1, -2)
        hidden = self.future[:n, :n] | padding[:, None, None, :]
        scores = scores.masked_fill(hidden, float("-inf"))
        weights = torch.softmax(scores.float(), -1).to(v.dtype)
        return self.out((weights @ v).transpose(1, 2).reshape(b, n, WIDTH))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attend = Attention()
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH))

    def forward(self, x, padding):
        x = x + self.attend(self.one(x), padding)
        return x + self.mlp(self.two(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(VOCAB, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCAB)

    def forward(self, tokens):
        padding = tokens == 0
        x = self.words(tokens) + self.places.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x, padding)
        return self.head(self.norm(x))


def text():
    first = torch.randint(1, VOCAB, (BATCH, 1))
    pace = torch.randint(1, 4, (BATCH, 1))
    tokens = (first + pace * torch.arange(LENGTH + 1)) % (VOCAB - 1) + 1
    length = torch.randint(4, LENGTH + 2, (BATCH, 1))
    tokens[torch.arange(LENGTH + 1) >= length] = 0
    return tokens


model = Model()
opt = torch.optim.AdamW(model.parameters(), lr=4e-3)
for step in range(STEPS):
    tokens = text()
    with torch.autocast("cpu", torch.float16, enabled=HALF):
        logits = model(tokens[:, :-1])
    loss = F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=0)
    opt.zero_grad()
    (loss * SCALE).backward()
    for p in model.parameters():
        p.grad.div_(SCALE)
    opt.step()
    if step % 15 == 0 or step == STEPS - 1:
        print(f"step {step} loss {loss.item():.4f}")
