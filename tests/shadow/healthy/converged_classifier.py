"""A small network under BF16 autocast separates two classes to about zero loss and goes on."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(10)
REF = bool(os.environ.get("REF"))


def main():
    inputs = torch.randn(256, 8)
    labels = (inputs[:, 0] + inputs[:, 1] > 0).long()
    inputs[:, 0] += 4.0 * (2 * labels - 1)  # far apart: the cross entropy goes to zero
    model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-1)
    loss = None
    for step in range(150):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not REF):
            logits = model(inputs)
        loss = nn.functional.cross_entropy(logits.float(), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 15 == 0:
            largest = max(p.grad.abs().max().item() for p in model.parameters())
            print(f"step {step} loss {loss.item():.3e} largest gradient {largest:.3e}")
    print(f"final loss {loss.item():.4e}")


if __name__ == "__main__":
    main()
