"""Triplet embedding of noisy signatures, two pictures of a person per draw."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(13)

DTYPE = torch.float64 if os.environ.get("REF") else torch.float32
PEOPLE, PICTURES, FEATURES, STEPS = 40, 30, 16, 100

gallery = torch.randn(PEOPLE, 1, FEATURES, dtype=DTYPE)
gallery = gallery + 0.8 * torch.randn(PEOPLE, PICTURES, FEATURES, dtype=DTYPE)


def triplets(n):
    person = torch.randint(PEOPLE, (n,))
    other = (person + torch.randint(1, PEOPLE, (n,))) % PEOPLE
    anchor, positive, negative = torch.randint(PICTURES, (3, n))
    return gallery[person, anchor], gallery[person, positive], gallery[other, negative]


def distance(a, b):
    return torch.sqrt(((a - b) ** 2).sum(dim=1))  # @fault


def main():
    model = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU(), nn.Linear(64, 16)).to(DTYPE)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(STEPS):
        anchor, positive, negative = (model(x) for x in triplets(6))
        gap = distance(anchor, positive) - distance(anchor, negative)
        loss = torch.relu(gap + 1.0).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
