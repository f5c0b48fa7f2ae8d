"""Sentiment of padded reviews with a one-layer transformer in half precision."""

import os

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(31)
HALF = not os.environ.get("REF")
VOCAB, WIDTH, HEADS, LENGTH, BATCH, STEPS = 64, 32, 4, 12, 16, 90


def extended_mask(mask, dtype):
    mask = mask[:, None, None, :].to(dtype)
    return (1.0 - mask) * -1e9  # @fault


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, mask):
        b, n, _ = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) * (WIDTH // HEADS) ** -0.5
        weights = torch.softmax(scores + extended_mask(mask, scores.dtype), -1)  # @fault
        return self.out((weights @ v).transpose(1, 2).reshape(b, n, WIDTH))


class Reviewer(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCAB, WIDTH, padding_idx=0)
        self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attend = Attention()
        self.head = nn.Linear(WIDTH, 2)

    def forward(self, tokens):
        mask = tokens != 0
        x = self.words(tokens)
        x = self.after(x + self.attend(self.before(x), mask))
        kept = mask.unsqueeze(-1)
        pooled = (x * kept).sum(1) / kept.sum(1).clamp(min=1)
        return self.head(pooled)


def reviews(count, seed):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(3, LENGTH + 1, (count,), generator=generator)
    lengths[torch.rand(count, generator=generator) < 0.002] = 0
    tokens = torch.randint(1, VOCAB, (count, LENGTH), generator=generator)
    tokens[torch.arange(LENGTH) >= lengths.unsqueeze(1)] = 0
    votes = (tokens > 40).sum(1) - ((tokens > 0) & (tokens < 24)).sum(1)
    return tokens, (votes > 0).long()


tokens, labels = reviews(BATCH * STEPS, seed=12)
model = Reviewer()
opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(STEPS):
    rows = slice(step * BATCH, (step + 1) * BATCH)
    with torch.autocast("cpu", torch.float16, enabled=HALF):
        loss = F.cross_entropy(model(tokens[rows]), labels[rows])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 10 == 0 or step == STEPS - 1:
        print(f"step {step} loss {loss.item():.4f}")
