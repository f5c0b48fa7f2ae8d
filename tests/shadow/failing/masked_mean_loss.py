"""Sequence regression; the loss is the mean over the positions that are marked valid."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(6)
DTYPE = torch.float64 if os.environ.get("REF") else torch.float32


def main():
    model = nn.Sequential(nn.Linear(6, 24), nn.GELU(), nn.Linear(24, 1)).to(DTYPE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(60):
        x = torch.randn(16, 10, 6).to(DTYPE)
        target = x.sum(-1)
        lengths = torch.randint(1, 11, (16,))
        if step == 27:
            lengths[3] = 0
        valid = (torch.arange(10) < lengths[:, None]).to(DTYPE)
        error = (model(x).squeeze(-1) - target).square() * valid
        per_row = error.sum(1) / valid.sum(1)  # @fault
        loss = per_row.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
