"""Listwise ranking loss over ragged lists of documents; the scorer runs in BF16."""

import torch
from torch import nn

torch.manual_seed(0)


class ListLoss(nn.Module):
    def __init__(self, pad=-1e16, eps=1e-10):
        super().__init__()
        self.pad, self.eps = pad, eps

    def forward(self, logits, labels):
        n, longest = len(labels), max(len(l) for l in labels)
        rows = torch.cat([torch.full((len(l),), i) for i, l in enumerate(labels)])
        cols = torch.cat([torch.arange(len(l)) for l in labels])
        scores = torch.full((n, longest), self.pad, dtype=logits.dtype)
        scores[rows, cols] = logits
        gold = torch.full((n, longest), -torch.inf)
        gold[rows, cols] = torch.cat(labels).float()
        order = gold.argsort(dim=1, descending=True)
        scores = scores.gather(1, order)
        mask = scores > self.pad / 2
        expo = scores.exp()  # @fault
        tail = expo.flip(1).cumsum(1).flip(1)  # @fault
        terms = (tail + self.eps).log() - scores  # @fault
        return (terms * mask).sum() / mask.sum()


scorer = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 1)).bfloat16()
opt = torch.optim.AdamW(scorer.parameters(), lr=2e-3)
lossf = ListLoss()
truth = torch.randn(16)
for step in range(80):
    sizes = torch.randint(3, 9, (24,)).tolist()
    docs = torch.randn(sum(sizes), 16)
    labels = list((docs @ truth).split(sizes))
    logits = scorer(docs.bfloat16()).squeeze(-1)
    loss = lossf(logits, labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 10 == 0:
        print(f"step {step} loss {loss.item():.4f}")
