"""Small image-like classifier fed by a DataLoader; training counted in steps, not epochs."""

import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(37)
if os.environ.get("REF"):
    torch.set_default_dtype(torch.float64)


def pictures(n, gen):
    y = torch.randint(0, 3, (n,), generator=gen)
    x = 0.7 * torch.randn(n, 1, 8, 8, generator=gen)
    row = torch.randint(0, 6, (n,), generator=gen)
    for i in range(n):
        r = int(row[i])
        if y[i] == 0:
            x[i, 0, r : r + 2] += 1.0
        elif y[i] == 1:
            x[i, 0, :, r : r + 2] += 1.0
        else:
            x[i, 0, r : r + 3, 2:6] += 1.0
    return TensorDataset(x, y)


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 12, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(12, 16, 3),
            nn.ReLU(),
        )
        self.out = nn.Linear(16 * 4, 3)

    def forward(self, x):
        return self.out(self.features(x).flatten(1))


def train_step(model, opt, loader):
    x, y = next(iter(loader))  # @fault
    loss = F.cross_entropy(model(x), y)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    return loss.item()


@torch.no_grad()
def evaluate(model, loader):
    hits = sum((model(x).argmax(-1) == y).sum().item() for x, y in loader)
    return hits / len(loader.dataset)


def main():
    gen = torch.Generator().manual_seed(2)
    train = DataLoader(pictures(1920, gen), batch_size=32, drop_last=True)  # @fault
    val = DataLoader(pictures(600, gen), batch_size=200)
    model = ConvNet()
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    for step in range(120):
        loss = train_step(model, opt, train)
        if step % 20 == 0 or step == 119:
            print(f"step {step} loss {loss:.4f} val accuracy {evaluate(model, val):.4f}")


if __name__ == "__main__":
    main()
