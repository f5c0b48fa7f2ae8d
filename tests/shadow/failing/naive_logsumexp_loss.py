"""A classifier with a contrastive loss by hand whose temperature is lowered as it trains."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(7)
DTYPE = torch.float64 if os.environ.get("REF") else torch.float32


def main():
    encoder = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 16)).to(DTYPE)
    optimizer = torch.optim.Adam(encoder.parameters(), lr=2e-3)
    for step in range(60):
        x = torch.randn(32, 12)
        a = nn.functional.normalize(encoder((x + 0.1 * torch.randn(32, 12)).to(DTYPE)), dim=-1)
        b = nn.functional.normalize(encoder((x + 0.1 * torch.randn(32, 12)).to(DTYPE)), dim=-1)
        temperature = 0.2 * 0.92**step
        similar = a @ b.t() / temperature
        total = torch.exp(similar).sum(1)  # @fault
        loss = -torch.log(torch.exp(similar.diagonal()) / total).mean()  # @fault
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
