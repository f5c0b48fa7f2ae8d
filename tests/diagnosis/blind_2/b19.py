"""A network predicts the load of a machine from the unix time stamps of its readings."""

import os

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(19)
DTYPE = torch.float64 if os.environ.get("REF") else torch.float32
PERIOD = 600.0


def load_readings(n):
    rng = np.random.default_rng(3)
    stamps = 1_718_000_000.0 + np.sort(rng.uniform(0, 30 * 86400, n))
    phase = 2 * np.pi * (stamps % PERIOD) / PERIOD
    day = 2 * np.pi * (stamps % 86400) / 86400
    load = (
        np.sin(phase)
        + 0.5 * np.sin(2 * phase + 1)
        + 0.4 * np.cos(day)
        + 0.05 * rng.standard_normal(n)
    )
    return stamps, load


def features(stamps):
    t = torch.from_numpy(stamps).to(DTYPE)  # @fault
    phase = 2 * torch.pi * torch.remainder(t, PERIOD) / PERIOD
    day = 2 * torch.pi * torch.remainder(t, 86400.0) / 86400.0
    columns = [torch.sin(phase), torch.cos(phase), torch.sin(day), torch.cos(day)]
    return torch.stack(columns, dim=1).float()


def main():
    stamps, load = load_readings(1600)
    x, y = features(stamps), torch.from_numpy(load).float()[:, None]
    loader = DataLoader(TensorDataset(x[:1280], y[:1280]), batch_size=64, shuffle=True)
    model = nn.Sequential(
        nn.Linear(4, 48), nn.SiLU(), nn.Linear(48, 48), nn.SiLU(), nn.Linear(48, 1)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(7):
        model.train()
        for inputs, target in loader:
            loss = nn.functional.mse_loss(model(inputs), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            held_out = nn.functional.mse_loss(model(x[1280:]), y[1280:]).item()
        print(f"epoch {epoch} train {loss.item():.4f} held out {held_out:.4f}")
    print(f"final {held_out:.5f}")


if __name__ == "__main__":
    main()
