"""Training stopped and resumed from a compact checkpoint held in memory."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(21)
REF = os.environ.get("REF")


def compact(tree):
    """A copy of a nested state with the tensors stored in 16 bits."""
    if isinstance(tree, dict):
        return {k: compact(v) for k, v in tree.items()}
    if isinstance(tree, list):
        return [compact(v) for v in tree]
    if torch.is_tensor(tree) and tree.dim() > 0:
        return tree.clone() if REF else tree.half()  # @fault
    return tree


class ItemModel(nn.Module):
    def __init__(self, items=800, dim=16):
        super().__init__()
        self.item = nn.Embedding(items, dim)
        self.mlp = nn.Sequential(nn.Linear(8 + dim, 64), nn.GELU(), nn.Linear(64, 1))

    def forward(self, x, item):
        return self.mlp(torch.cat([x, self.item(item)], -1)).squeeze(-1)


def build():
    model = ItemModel()
    return model, torch.optim.Adam(model.parameters(), lr=4e-3)


mixing = torch.randn(8) / 3
item_level = torch.randn(800)


def batch(n=256):
    x = torch.randn(n, 8)
    item = torch.randint(800, (n,))
    return x, item, torch.sin(x @ mixing) + 0.3 * item_level[item]


def train(model, optimizer, first, last):
    for step in range(first, last):
        x, item, y = batch()
        loss = (model(x, item) - y).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # @fault
        if step % 5 == 0 or step == last - 1:
            print(f"step {step} loss {loss.item():.4f}")


model, optimizer = build()
train(model, optimizer, 0, 60)
checkpoint = compact({"model": model.state_dict(), "optimizer": optimizer.state_dict()})

model, optimizer = build()
model.load_state_dict(checkpoint["model"])
optimizer.load_state_dict(checkpoint["optimizer"])
print("resumed")
train(model, optimizer, 60, 110)
