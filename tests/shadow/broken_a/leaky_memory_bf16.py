"""Recurrent memory with one learned decay per channel, for targets that depend on old inputs."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(4)

DTYPE = torch.float32 if os.environ.get("REF") else torch.bfloat16
LENGTH, CHANNELS = 100, 16


class LeakyMemory(nn.Module):
    def __init__(self):
        super().__init__()
        # Decays from 0.9984 to 0.9999 at the start.
        decay = 1 - torch.logspace(-2.8, -4, CHANNELS)
        self.logit = nn.Parameter(torch.logit(decay))
        self.write = nn.Linear(1, CHANNELS)
        self.read = nn.Linear(CHANNELS, 1)

    def forward(self, x):
        decay = torch.sigmoid(self.logit)  # @fault
        written = self.write(x)
        state = torch.zeros_like(written[:, 0])
        for t in range(x.shape[1]):
            state = decay * state + written[:, t]
        return self.read(state / 8).squeeze(-1)


def batch(size=24):
    x = torch.randn(size, LENGTH) + 0.1 * torch.randn(size, 1)
    age = torch.arange(LENGTH - 1, -1, -1)
    weight = 0.95**age
    target = (x * weight).sum(dim=1) / 4
    return x[..., None].to(DTYPE), target


def main():
    model = LeakyMemory().to(DTYPE)
    optimizer = torch.optim.Adam(
        [
            {"params": [model.logit], "lr": 0.06},
            {"params": [*model.write.parameters(), *model.read.parameters()], "lr": 0.01},
        ]
    )
    for step in range(100):
        x, target = batch()
        loss = nn.functional.mse_loss(model(x).float(), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step:3d} loss {loss.item():.4f}")
    with torch.no_grad():
        x, target = batch(1000)
        error = nn.functional.mse_loss(model(x).float(), target).item()
    fixed = int((torch.sigmoid(model.logit) == 1).sum())
    print(f"final loss {loss.item():.4f} held-out {error:.4f} channels that never forget {fixed}")


if __name__ == "__main__":
    main()
