"""Language model over hashed bigrams with a noisy top-2 mixture of experts in BF16."""

import os

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(23)

AMP = not os.environ.get("REF")
VOCAB, BUCKETS, EXPERTS, WIDTH, STEPS = 12, 4096, 4, 32, 120


class TopTwo(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(EXPERTS))

    def forward(self, x):
        with torch.autocast("cpu", enabled=False):
            scores = self.router(x.float())
            if self.training:
                scores = scores + 0.1 * torch.randn_like(scores)
            top, index = scores.topk(2, dim=-1)
            sparse = torch.full_like(scores, float("-inf")).scatter(-1, index, top)
            gates = torch.softmax(sparse, dim=-1)
        y = torch.stack([expert(x) for expert in self.experts], dim=-2)
        return x + torch.relu((gates.to(y.dtype).unsqueeze(-1) * y).sum(-2))


class HashedModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.buckets = nn.Embedding(BUCKETS, WIDTH)
        self.mixture = TopTwo()
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, first, second):
        key = (first * 2654435761 + second * 40503) % 2147483647
        x = self.buckets(key % BUCKETS)
        return self.head(self.mixture(x))


following = torch.randint(VOCAB, (VOCAB, VOCAB))
model = HashedModel()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(STEPS):
    first, second = torch.randint(VOCAB, (2, 256))
    target = following[first, second]
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=AMP):
        logits = model(first, second)
    loss = F.cross_entropy(logits.float(), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(f"step {step} loss {loss.item():.4f}")

model.eval()
with torch.no_grad():
    first, second = torch.randint(VOCAB, (2, 2000))
    logits = model(first, second)
    accuracy = (logits.argmax(-1) == following[first, second]).float().mean().item()
print(f"final loss {loss.item():.4f} accuracy {accuracy:.3f}")
