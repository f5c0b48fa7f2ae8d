"""Regression whose channels are weighted by their squared error, relative to the worst one."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(5)
HALF = torch.float32 if os.environ.get("REF") else torch.float16


def main():
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(60):
        x = torch.randn(128, 8)
        target = (1 + step) * x[:, :4]
        error = (model(x) - target).to(HALF)
        per_channel = (error * error).sum(0)  # @fault
        shares = per_channel / per_channel.max()  # @fault
        loss = (shares.float() * (error.float().abs().mean(0))).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
