"""An encoder with T5-like relative position buckets learns to copy from a fixed distance."""

import math
import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(13)
REF = bool(os.environ.get("REF"))
VOCAB, LENGTH, WIDTH, HEADS = 12, 24, 32, 4


def relative_bucket(relative, buckets=16, max_distance=64):
    half = buckets // 2
    side = (relative > 0).long() * half
    distance = relative.abs()
    exact = half // 2
    # log(0) at distance 0: `where` takes the exact bucket there
    far = exact + (
        torch.log(distance.float() / exact) / math.log(max_distance / exact) * (half - exact)
    )
    far = far.clamp(min=0, max=half - 1).long()
    return side + torch.where(distance < exact, distance, far)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.bias = nn.Embedding(16, HEADS)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        position = torch.arange(t)
        bias = self.bias(relative_bucket(position[None, :] - position[:, None])).permute(2, 0, 1)
        scores = (q @ k.transpose(-2, -1)).float() / (WIDTH // HEADS) ** 0.5 + bias
        mixed = scores.softmax(-1).to(v.dtype) @ v
        return self.out(mixed.transpose(1, 2).reshape(b, t, WIDTH))


class InverseDistance(nn.Module):
    """A fixed feature: sum of the neighbours' values over their distance, 0 for oneself."""

    def forward(self, value):
        position = torch.arange(value.shape[1])
        distance = (position[None, :] - position[:, None]).abs().float()
        weight = torch.where(distance > 0, 1.0 / distance, torch.zeros(()))
        return (weight / weight.sum(-1, keepdim=True)) @ value.float()


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(VOCAB, WIDTH)
        self.spread = InverseDistance()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.norm2 = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, tokens):
        x = self.token(tokens)
        x = x + 0.1 * self.spread(x)
        x = x + self.attention(self.norm1(x))
        return self.head(self.norm2(x))


def main():
    model = Encoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(1)
    tail = []
    for step in range(120):
        tokens = torch.randint(0, VOCAB, (32, LENGTH), generator=generator)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not REF):
            logits = model(tokens)
        loss = nn.functional.cross_entropy(
            logits[:, 2:].float().flatten(0, 1), tokens[:, :-2].flatten()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        tail = (tail + [loss.item()])[-10:]
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {sum(tail) / len(tail):.4f}")


if __name__ == "__main__":
    main()
