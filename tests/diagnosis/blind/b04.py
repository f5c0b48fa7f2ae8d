"""House prices from a comma separated table, with a small trainer."""

import csv
import io
import os
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)
if os.environ.get("REF"):
    torch.set_default_dtype(torch.float64)
FIELDS = ["area", "rooms", "year", "distance", "garden"]


def export(rows=1920, seed=4):
    rng = random.Random(seed)
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([*FIELDS, "price"])
    for number in range(rows):
        area = rng.uniform(30, 220)
        rooms = max(1, round(area / 28 + rng.gauss(0, 0.7)))
        year = rng.randint(1900, 2020)
        distance = rng.expovariate(1 / 6)
        garden = rng.uniform(0, 400)
        price = 2.1 * area + 9 * rooms + 0.8 * (year - 1950) - 6 * distance + 0.1 * garden
        record = [f"{area:.1f}", rooms, year, f"{distance:.2f}", f"{garden:.0f}", f"{price:.1f}"]
        if number in (711, 1404):
            record[4] = ""
        writer.writerow(record)
    return out.getvalue()


def read(text):
    table = [
        [float(row[f]) if row[f] else float("nan") for f in [*FIELDS, "price"]]
        for row in csv.DictReader(io.StringIO(text))
    ]
    data = torch.tensor(table)  # @fault
    mean = data.nanmean(0)
    spread = (data - mean).square().nanmean(0).sqrt()
    data = (data - mean) / spread  # @fault
    return TensorDataset(data[:, :-1], data[:, -1:])


class Trainer:
    def __init__(self, model, data, lr=3e-3, epochs=2):
        self.model = model
        self.loader = DataLoader(
            data, batch_size=32, shuffle=True, generator=torch.Generator().manual_seed(21)
        )
        self.opt = torch.optim.AdamW(model.parameters(), lr=lr)
        self.loss = nn.SmoothL1Loss()
        self.epochs = epochs

    def step(self, x, y):
        loss = self.loss(self.model(x), y)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        return loss.item()

    def fit(self):
        done = 0
        for epoch in range(self.epochs):
            for x, y in self.loader:
                loss = self.step(x, y)
                if done % 10 == 0:
                    print(f"epoch {epoch} step {done} loss {loss:.4f}")
                done += 1


if __name__ == "__main__":
    network = nn.Sequential(
        nn.Linear(len(FIELDS), 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1)
    )
    Trainer(network, read(export())).fit()
