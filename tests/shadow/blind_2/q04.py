"""Causal transformer on chunks of long documents, rotary positions, BF16 autocast."""

import os

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(4)

AMP = not os.environ.get("REF")
VOCAB, CHUNK, BACK, STEPS = 16, 48, 3, 140


class RotaryAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.dim = heads, width // heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        inv_freq = 1.0 / (1000.0 ** (torch.arange(0, self.dim, 2).float() / self.dim))
        self.register_buffer("inv_freq", inv_freq)

    def rotate(self, x, positions):
        t = positions.to(x.dtype)  # @fault
        angles = t[:, None, :, None] * self.inv_freq.to(x.dtype)  # @fault
        cos, sin = angles.cos(), angles.sin()
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)

    def forward(self, x, positions):
        n, length, width = x.shape
        qkv = self.qkv(x).view(n, length, 3, self.heads, self.dim).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        q, k = self.rotate(q, positions), self.rotate(k, positions)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(n, length, width))


class Decoder(nn.Module):
    def __init__(self, width=32, heads=2):
        super().__init__()
        self.token = nn.Embedding(VOCAB, width)
        self.norm = nn.LayerNorm(width)
        self.attention = RotaryAttention(width, heads)
        self.head = nn.Linear(width, VOCAB)

    def forward(self, ids, positions):
        x = self.token(ids)
        x = x + self.attention(self.norm(x), positions)
        return self.head(x)


def chunks(n):
    ids = torch.randint(VOCAB, (n, CHUNK))
    start = torch.randint(0, 4096, (n, 1))
    positions = start + torch.arange(CHUNK)
    return ids, positions


def main():
    model = Decoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    for step in range(STEPS):
        ids, positions = chunks(16)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=AMP):
            logits = model(ids, positions)
        target = ids[:, :-BACK]
        loss = F.cross_entropy(logits[:, BACK:].float().flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
