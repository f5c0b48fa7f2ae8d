"""A recommender: hashed ids in a sparse embedding table, top-k attention over a history."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(9)
REF = bool(os.environ.get("REF"))
ITEMS, BUCKETS, HISTORY = 100_000, 512, 16


def bucket(ids):
    """Multiplicative hash of 64-bit ids to buckets, in integers throughout."""
    return (ids * 2654435761 % (1 << 32)) >> 23


class Recommender(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.table = nn.Embedding(BUCKETS, dim, sparse=True)
        nn.init.normal_(self.table.weight, std=0.3)
        self.query = nn.Linear(dim, dim)
        self.score = nn.Sequential(
            nn.Linear(2 * dim, 48), nn.ReLU(), nn.Dropout(0.1), nn.Linear(48, 1)
        )

    def forward(self, history, item):
        past = self.table(bucket(history))
        target = self.table(bucket(item))
        match = torch.einsum("bd,bhd->bh", self.query(target), past).float()
        best, where = match.topk(6, dim=-1)
        kept = past.gather(1, where.unsqueeze(-1).expand(-1, -1, past.shape[-1]))
        pooled = (best.softmax(-1).unsqueeze(-1) * kept).sum(1)
        return self.score(torch.cat([pooled, target], dim=-1)).squeeze(-1)


def batch(size, catalogue, topic, generator):
    user = torch.randint(0, 8, (size, 1), generator=generator)
    picks = torch.randint(0, len(catalogue), (size, 6 * HISTORY), generator=generator)
    order = (topic[picks] != user).float().argsort(dim=-1, stable=True)
    history = picks.gather(1, order[:, :HISTORY])
    wanted = torch.rand(size, generator=generator) < 0.5
    liked = history[:, 0]
    other = torch.randint(0, len(catalogue), (size,), generator=generator)
    item = torch.where(wanted, liked, other)
    label = (topic[item] == user.squeeze(1)).float()
    return catalogue[history[:, 1:]], catalogue[item], label


def main():
    catalogue = torch.randint(0, ITEMS, (160,))
    topic = torch.randint(0, 8, (160,))
    model = Recommender()
    dense = [p for n, p in model.named_parameters() if not n.startswith("table")]
    optimizers = [
        torch.optim.SparseAdam(list(model.table.parameters()), lr=2e-2),
        torch.optim.AdamW(dense, lr=4e-3),
    ]
    generator = torch.Generator().manual_seed(3)
    tail = []
    for step in range(150):
        history, item, label = batch(192, catalogue, topic, generator)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not REF):
            logits = model(history, item)
        loss = nn.functional.binary_cross_entropy_with_logits(logits.float(), label)
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        tail = (tail + [loss.item()])[-20:]
        if step % 25 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {sum(tail) / len(tail):.4f}")


if __name__ == "__main__":
    main()
