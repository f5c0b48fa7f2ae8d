"""Tabular regression with mini-batches from a DataLoader and a cosine schedule."""

import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.set_num_threads(1)
torch.manual_seed(21)
if os.environ.get("REF"):
    torch.set_default_dtype(torch.float64)

N, FEATURES = 2560, 12


def table():
    x = torch.randn(N, FEATURES)
    w = torch.randn(FEATURES)
    y = x @ w + 0.8 * torch.sin(2 * x[:, 0]) * x[:, 1] + 0.1 * torch.randn(N)
    return TensorDataset(x, (y - y.mean()) / y.std())


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(FEATURES, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1)
        )

    def forward(self, x):
        return self.net(x)


def squared_error(pred, target):
    return (pred - target).pow(2).mean()  # @fault


@torch.no_grad()
def r2(model, loader):
    model.eval()
    pred = torch.cat([model(x) for x, _ in loader]).flatten()
    target = torch.cat([y for _, y in loader])
    model.train()
    return 1 - ((pred - target) ** 2).sum().item() / ((target - target.mean()) ** 2).sum().item()


train_set, test_set = random_split(table(), [2048, 512])
train = DataLoader(train_set, batch_size=64, shuffle=True)
test = DataLoader(test_set, batch_size=256)
model = Regressor()
opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-4)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=5 * len(train))
for epoch in range(5):
    total = 0.0
    for x, y in train:
        loss = squared_error(model(x), y)  # @fault
        opt.zero_grad()
        loss.backward()
        opt.step()
        schedule.step()
        total += loss.item()
    print(f"epoch {epoch} loss {total / len(train):.4f} test r2 {r2(model, test):.4f}")
