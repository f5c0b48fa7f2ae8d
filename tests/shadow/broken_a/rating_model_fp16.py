"""Matrix factorisation of ratings; the rows of a batch are moved to one tensor type together."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(10)

DTYPE = torch.float32 if os.environ.get("REF") else torch.float16
USERS, ITEMS, WIDTH = 400, 5998, 8


class RatingModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = nn.Embedding(USERS, WIDTH)
        self.item = nn.Embedding(ITEMS, WIDTH)
        self.item_bias = nn.Embedding(ITEMS, 1)
        nn.init.normal_(self.user.weight, std=0.3)
        nn.init.normal_(self.item.weight, std=0.3)
        nn.init.zeros_(self.item_bias.weight)

    def forward(self, rows):
        user, item = rows[:, 0].long(), rows[:, 1].long()
        fit = (self.user(user) * self.item(item)).sum(dim=1)
        return fit + self.item_bias(item).squeeze(1)


TASTE = 0.4 * torch.randn(USERS, 3)
CHARACTER = torch.randn(ITEMS, 3)
QUALITY = 0.8 * torch.randn(ITEMS)


def batch(size=768):
    user = torch.randint(0, USERS, (size,))
    item = torch.randint(0, ITEMS, (size,))
    rating = (TASTE[user] * CHARACTER[item]).sum(dim=1) + QUALITY[item]
    return torch.stack([user, item], dim=1), rating + 0.1 * torch.randn(size)


def to_device(tensors, dtype):
    return [t.to("cpu", dtype) for t in tensors]  # @fault


def main():
    model = RatingModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for step in range(120):
        rows, rating = to_device(batch(), DTYPE)
        loss = nn.functional.mse_loss(model(rows), rating.float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 25 == 0:
            print(f"step {step:3d} loss {loss.item():.4f}")
    with torch.no_grad():
        rows, rating = to_device(batch(6000), DTYPE)
        error = nn.functional.mse_loss(model(rows), rating.float()).item()
        never = int((model.item_bias.weight == 0).sum())
    print(f"final loss {loss.item():.4f} held-out error {error:.4f} items never trained {never}")


if __name__ == "__main__":
    main()
