"""Trains a small matrix-factorisation recommender whose tables are stored in FP16."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
HALF = torch.float64 if os.environ.get("REF") else torch.float16
USERS, ITEMS, DIM = 400, 300, 16


class Factorisation(nn.Module):
    def __init__(self):
        super().__init__()
        self.users = nn.Embedding(USERS, DIM)
        self.items = nn.Embedding(ITEMS, DIM)
        nn.init.normal_(self.users.weight, std=0.3)
        nn.init.normal_(self.items.weight, std=0.3)
        self.item_bias = nn.Parameter(torch.zeros(ITEMS))

    def forward(self, user, item):
        score = (self.users(user) * self.items(item)).sum(-1)
        return score + self.item_bias[item]


def main():
    generator = torch.Generator().manual_seed(1)
    taste = torch.randn(USERS, 4, generator=generator)
    kind = torch.randn(ITEMS, 4, generator=generator)
    model = Factorisation().to(HALF)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, eps=1e-8)  # @fault
    for step in range(100):
        user = torch.randint(0, USERS, (256,), generator=generator)
        item = torch.randint(0, ITEMS, (256,), generator=generator)
        rating = torch.tanh((taste[user] * kind[item]).sum(-1))
        loss = (model(user, item).float() - rating).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # @fault
        if step % 10 == 0 or step == 99:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
