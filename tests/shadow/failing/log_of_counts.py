"""A text model on log counts of words, centred per document."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(4)
DTYPE = torch.float64 if os.environ.get("REF") else torch.float32


class LogCounts(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(words))

    def forward(self, counts):
        logs = torch.log(counts)  # @fault
        return self.weight * (logs - logs.mean(dim=-1, keepdim=True))


def documents(step):
    rate = torch.full((32, 15), 9.0)
    counts = torch.poisson(rate).clamp(min=1)
    if step == 43:
        counts[7, 3] = 0
    return counts.to(DTYPE)


def main():
    model = nn.Sequential(LogCounts(15), nn.Linear(15, 24), nn.Tanh(), nn.Linear(24, 2)).to(DTYPE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    for step in range(70):
        counts = documents(step)
        labels = (counts[:, 0] > counts[:, 1]).long()
        loss = nn.functional.cross_entropy(model(counts), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
