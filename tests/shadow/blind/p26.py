"""Hashed categorical features, a vector-quantised bottleneck and top-k pooling, BF16 autocast."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(173)
MIXED = not os.environ.get("REF")

BUCKETS, CODES, WIDTH = 512, 32, 16


def bucket(ids, seed):
    mixed = (ids + seed) * 2654435761 % (1 << 32)
    return (mixed >> 7) % BUCKETS


class Quantiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.codes = nn.Parameter(torch.randn(CODES, WIDTH))

    def forward(self, x):
        x = x.float()
        distance = (x.unsqueeze(1) - self.codes.detach()).square().sum(dim=-1)
        chosen = self.codes[distance.argmin(dim=1)]
        commit = (x - chosen.detach()).square().mean() + (x.detach() - chosen).square().mean()
        return x + (chosen - x).detach(), commit


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(BUCKETS, WIDTH)
        self.score = nn.Linear(WIDTH, 1)
        self.quantiser = Quantiser()
        self.out = nn.Sequential(nn.Linear(2 * WIDTH, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, ids):
        rows = self.table(bucket(ids, 17)) + self.table(bucket(ids, 40503))
        score = self.score(rows).squeeze(-1)
        top, where = score.topk(3, dim=1)
        kept = rows.gather(1, where.unsqueeze(-1).expand(-1, -1, WIDTH))
        pooled = (kept * top.softmax(dim=1).unsqueeze(-1)).sum(dim=1)
        coded, commit = self.quantiser(rows.mean(dim=1))
        return self.out(torch.cat([pooled, coded.to(pooled.dtype)], dim=1)).squeeze(1), commit


catalogue = 7_000_000_000 + 7919 * torch.arange(120)
liking = torch.randn(120)
model = Recommender()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
tail = []
for step in range(140):
    pick = torch.randint(120, (128, 8))
    target = liking[pick].amax(dim=1) + liking[pick].mean(dim=1)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=MIXED):
        prediction, commit = model(catalogue[pick])
    error = nn.functional.mse_loss(prediction.float(), target)
    optimizer.zero_grad()
    (error + 0.1 * commit).backward()
    optimizer.step()
    tail.append(error.item())
    if step % 20 == 0:
        print(f"step {step:3d} mse {error.item():.4f} commit {commit.item():.4f}")
print(f"mean mse of the last 20 steps {sum(tail[-20:]) / 20:.4f}")
