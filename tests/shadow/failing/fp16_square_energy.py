"""Trains a feature extractor in FP16 whose pooling layer measures the energy of its channels."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
HALF = torch.float32 if os.environ.get("REF") else torch.float16


class EnergyPool(nn.Module):
    def forward(self, x):
        energy = x * x  # @fault
        return energy / energy.mean(dim=-1, keepdim=True)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(16, 32)
        self.pool = EnergyPool()
        self.out = nn.Linear(32, 1)

    def forward(self, x):
        return self.out(self.pool(self.inp(x).to(HALF)).float()).squeeze(-1)


def main():
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(60):
        x = torch.randn(64, 16)
        gain = 1.17**step
        target = (x[:, 0] * x[:, 1]).tanh()
        loss = (model(gain * x) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
