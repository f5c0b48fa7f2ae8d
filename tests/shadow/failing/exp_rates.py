"""A normalised-rate model of event counts; its rates are exponentials of a learned score."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(2)
DTYPE = torch.float64 if os.environ.get("REF") else torch.float32


class Rates(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(10, 6)

    def forward(self, x):
        rate = torch.exp(self.score(x))  # @fault
        return rate / rate.sum(dim=-1, keepdim=True)


def main():
    model = Rates().to(DTYPE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(60):
        x = (torch.randn(64, 10) * (1 + 1.2 * step)).to(DTYPE)
        labels = x[:, :6].argmax(-1)
        chosen = model(x)[torch.arange(64), labels]
        loss = (1 - chosen).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
