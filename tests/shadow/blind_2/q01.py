"""Classify weather-station readings by their distance to learned class prototypes."""

import os

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(11)

DTYPE = torch.float64 if os.environ.get("REF") else torch.float32
CLASSES, STEPS = 6, 120

# Columns: pressure (Pa), temperature (K), humidity (%), wind (m/s).
BASE = torch.tensor([101325.0, 288.0, 60.0, 5.0], dtype=DTYPE)
CLASS_SHIFT = torch.randn(CLASSES, 4, dtype=DTYPE) * torch.tensor([6.0, 6.0, 6.0, 3.0], dtype=DTYPE)


def readings(n):
    label = torch.randint(CLASSES, (n,))
    noise = torch.randn(n, 4, dtype=DTYPE) * 2.0
    return BASE + CLASS_SHIFT[label] + noise, label


class PrototypeClassifier(nn.Module):
    def __init__(self, first_batch):
        super().__init__()
        self.centres = nn.Parameter(first_batch[:CLASSES].clone())
        self.log_scale = nn.Parameter(torch.tensor(-2.0, dtype=DTYPE))

    def squared_distance(self, x):
        x2 = (x * x).sum(1, keepdim=True)
        c2 = (self.centres * self.centres).sum(1)
        d2 = x2 + c2 - 2.0 * (x @ self.centres.t())  # @fault
        return d2.clamp(min=0.0)

    def forward(self, x):
        return -self.squared_distance(x) * self.log_scale.exp()


def main():
    x, _ = readings(64)
    model = PrototypeClassifier(x)
    optimizer = torch.optim.Adam(
        [
            {"params": [model.centres], "lr": 0.3},
            {"params": [model.log_scale], "lr": 0.02},
        ]
    )
    for step in range(STEPS):
        x, label = readings(256)
        loss = F.cross_entropy(model(x), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}")

    with torch.no_grad():
        x, label = readings(4000)
        accuracy = (model(x).argmax(1) == label).double().mean().item()
    print(f"final loss {loss.item():.4f} accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
