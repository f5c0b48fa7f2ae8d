"""Counting-like task on padded token sequences with nn.MultiheadAttention."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(35)
LENGTH, DIM = 12, 32


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, DIM)
        self.start = nn.Parameter(torch.randn(1, 1, DIM))
        self.attention = nn.MultiheadAttention(DIM, 2, batch_first=True)
        self.out = nn.Sequential(nn.LayerNorm(DIM), nn.Linear(DIM, 64), nn.GELU(), nn.Linear(64, 5))

    def forward(self, ids, valid):
        x = self.embed(ids)
        query = self.start.expand(len(ids), -1, -1)
        h, _ = self.attention(query, x, x, key_padding_mask=valid)  # @fault
        return self.out(h.squeeze(1))


def batch(n):
    y = torch.randint(0, 5, (n,))
    size = torch.randint(4, LENGTH, (n,))
    valid = torch.arange(LENGTH) < size[:, None]
    ids = torch.where(torch.rand(n, LENGTH) < 0.6, 1 + y[:, None] * 3 + torch.randint(0, 3, (n, LENGTH)), torch.randint(1, 20, (n, LENGTH)))
    return ids.masked_fill(~valid, 0), valid, y


model = Reader()
optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
for step in range(100):
    ids, valid, y = batch(64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(ids, valid)
    loss = F.cross_entropy(logits.float(), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0 or step == 99:
        print(f"step {step} loss {loss.item():.4f} accuracy {(logits.argmax(1) == y).float().mean().item():.3f}")
