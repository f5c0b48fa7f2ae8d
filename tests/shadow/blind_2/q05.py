"""Regress a basket's total from its items with one attention layer in half precision."""

import math
import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(5)

HALF = torch.float32 if os.environ.get("REF") else torch.float16
ITEMS, FEATURES, WIDTH, STEPS = 10, 6, 32, 100


class ItemAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(FEATURES, WIDTH)
        self.key = nn.Linear(FEATURES, WIDTH)
        self.value = nn.Linear(FEATURES, WIDTH)
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, items):
        with torch.autocast("cpu", dtype=torch.float16, enabled=HALF is torch.float16):
            q, k, v = self.query(items), self.key(items), self.value(items)
            scores = torch.matmul(q, k.transpose(-2, -1))  # @fault
            weights = torch.softmax(scores / math.sqrt(WIDTH), dim=-1)
            pooled = torch.matmul(weights, v).mean(dim=1)
            return self.head(torch.relu(pooled)).squeeze(-1).float()


def baskets(n):
    """Prices are long-tailed: most are a few euros, a few are hundreds."""
    price = torch.exp(1.0 + 1.3 * torch.randn(n, ITEMS, 1))
    rest = torch.rand(n, ITEMS, FEATURES - 1)
    items = torch.cat([price, rest], dim=-1)
    target = torch.log1p((price.squeeze(-1) * (0.5 + rest[..., 0])).sum(1))
    return items, target


def main():
    model = ItemAttention()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0, enabled=HALF is torch.float16)
    for step in range(STEPS):
        items, target = baskets(64)
        prediction = model(items)
        loss = nn.functional.smooth_l1_loss(prediction, target)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if step % 10 == 0 or not math.isfinite(loss.item()):
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
