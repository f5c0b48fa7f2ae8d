"""A trainer with gradient accumulation and an exponential learning-rate schedule."""

import os

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(16)
DTYPE = torch.float64 if os.environ.get("REF") else torch.float32


def make_data(n):
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(n, 12, generator=generator, dtype=torch.float64)
    mix = torch.randn(12, 6, generator=generator, dtype=torch.float64) / 3
    y = torch.sin(2 * x @ mix).sum(1, keepdim=True) / 2
    return TensorDataset(x.to(DTYPE), y.to(DTYPE))


class Trainer:
    def __init__(self, model, train, accumulate=2, lr=1e-2, gamma=0.9):
        self.model = model
        self.loader = DataLoader(
            train, batch_size=16, shuffle=True, generator=torch.Generator().manual_seed(1)
        )
        self.accumulate = accumulate
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
        self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, gamma=gamma)
        self.steps = 0

    def train_epoch(self):
        total = 0.0
        for i, (x, y) in enumerate(self.loader):
            loss = nn.functional.mse_loss(self.model(x), y)
            (loss / self.accumulate).backward()
            total += loss.item()
            if (i + 1) % self.accumulate == 0:
                self.optimizer.step()
                self.optimizer.zero_grad()
                self.scheduler.step()  # @fault
                self.steps += 1
        return total / len(self.loader)

    def fit(self, epochs):
        for epoch in range(epochs):
            mean = self.train_epoch()
            print(f"epoch {epoch} steps {self.steps} loss {mean:.4f}")
        return mean


model = nn.Sequential(
    nn.Linear(12, 96), nn.SiLU(), nn.Linear(96, 96), nn.SiLU(), nn.Linear(96, 1)
).to(DTYPE)
print(f"final {Trainer(model, make_data(480)).fit(12):.5f}")
