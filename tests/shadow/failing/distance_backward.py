"""A metric-learning layer: the distance of each sample from the prototypes, learned jointly."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(8)
DTYPE = torch.float64 if os.environ.get("REF") else torch.float32


class Distances(nn.Module):
    def __init__(self, prototypes):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(prototypes.shape[1]))
        self.register_buffer("prototypes", prototypes)

    def forward(self, x):
        offset = self.scale * (x[:, None, :] - self.prototypes)
        return offset.square().sum(-1).sqrt()  # @fault


def main():
    prototypes = torch.randn(5, 8)
    model = nn.Sequential(Distances(prototypes), nn.Linear(5, 5)).to(DTYPE)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(60):
        labels = torch.randint(0, 5, (48,))
        x = prototypes[labels] + 0.3 * torch.randn(48, 8)
        if step == 35:
            x[11] = prototypes[labels[11]]
        loss = nn.functional.cross_entropy(model(x.to(DTYPE)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
