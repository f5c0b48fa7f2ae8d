"""Ragged documents with causal and padding masks, BF16 attention by hand."""

import os

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(21)

AMP = not os.environ.get("REF")
VOCAB, LENGTH, STEPS = 20, 24, 120


class MaskedAttention(nn.Module):
    def __init__(self, width, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        causal = torch.full((LENGTH, LENGTH), float("-inf")).triu(1)
        self.register_buffer("causal", causal)

    def forward(self, x, valid):
        n, length, width = x.shape
        q, k, v = (
            t.view(n, length, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1)
        )
        scores = q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5
        scores = scores + self.causal
        scores = scores.masked_fill(~valid[:, None, None, :], float("-inf"))
        empty = torch.isinf(scores).all(dim=-1, keepdim=True)
        weights = torch.softmax(scores.masked_fill(empty, 0.0), dim=-1)
        weights = weights.masked_fill(empty, 0.0)
        y = (weights.to(v.dtype) @ v).transpose(1, 2).reshape(n, length, width)
        return self.out(y)


class Model(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.token = nn.Embedding(VOCAB, width)
        self.place = nn.Embedding(LENGTH, width)
        self.attention = MaskedAttention(width)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCAB)

    def forward(self, ids, valid):
        x = self.token(ids) + self.place(torch.arange(LENGTH))
        return self.head(self.norm(x + self.attention(x, valid)))


def documents(n):
    """Padded on the left; now and then a row of the batch is empty."""
    ids = torch.randint(VOCAB, (n, LENGTH))
    length = torch.randint(0, LENGTH + 1, (n, 1))
    length[0] = 0
    valid = torch.arange(LENGTH) >= LENGTH - length
    target = ids.roll(1, dims=1)
    scored = valid & valid.roll(1, dims=1)
    scored[:, 0] = False
    return ids, valid, target.masked_fill(~scored, -100)


model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(STEPS):
    ids, valid, target = documents(24)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=AMP):
        logits = model(ids, valid)
    loss = F.cross_entropy(logits.float().flatten(0, 1), target.flatten(), ignore_index=-100)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(f"step {step} loss {loss.item():.4f}")
print(f"final loss {loss.item():.4f}")
