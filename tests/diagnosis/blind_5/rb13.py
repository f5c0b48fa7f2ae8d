"""Forecast the load of a service from time stamps: a short duty cycle on top of an hourly one."""
import math
import random
import torch
import torch.nn as nn
from torch.utils.data import Dataset, DataLoader

random.seed(0)
torch.manual_seed(0)
START = 1_700_000_000


def load_at(t):
    cycle = (t % 300) / 300
    hour = (t % 3600) / 3600
    busy = 1.5 if cycle < 0.35 else 0.0
    return busy + math.sin(2 * math.pi * hour) + 0.4 * math.cos(4 * math.pi * cycle) + random.gauss(0, 0.15)


def read_log(n):
    rows = []
    for _ in range(n):
        t = START + random.randrange(14 * 24 * 3600)
        rows.append((t, load_at(t)))
    return rows


class LogData(Dataset):
    def __init__(self, rows):
        t = torch.tensor([r[0] for r in rows], dtype=torch.float32)  # @fault
        self.y = torch.tensor([r[1] for r in rows])
        feats = []
        for period in (300, 3600, 86400):
            phase = torch.remainder(t, period) / period * (2 * math.pi)
            for k in (1, 2, 3):
                feats += [torch.sin(k * phase), torch.cos(k * phase)]
        self.x = torch.stack(feats, 1).float()

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Forecast(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


def evaluate(model, ds):
    with torch.no_grad():
        err = model(ds.x) - ds.y
    return err.pow(2).mean().sqrt().item(), 1 - (err.var() / ds.y.var()).item()


def main():
    rows = read_log(7000)
    train, val = LogData(rows[:6000]), LogData(rows[6000:])
    model = Forecast(train.x.shape[1])
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    print(f"{len(train)} rows, first {rows[0]}")
    for epoch in range(6):
        total = 0.0
        for x, y in DataLoader(train, batch_size=64, shuffle=True):
            loss = nn.functional.mse_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(y)
        rmse, r2 = evaluate(model, val)
        print(f"epoch {epoch} train mse {total / len(train):.4f} val rmse {rmse:.4f} R2 {r2:.4f}")


if __name__ == "__main__":
    main()
