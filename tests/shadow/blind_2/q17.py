"""Taxi trip time from pick-up and drop-off coordinates."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(17)
DTYPE = torch.float64 if os.environ.get("REF") else torch.float32
EARTH_KM = 6371.0


def great_circle_km(lat1, lon1, lat2, lon2):
    lat1, lon1, lat2, lon2 = (torch.deg2rad(v) for v in (lat1, lon1, lat2, lon2))
    cos_angle = torch.sin(lat1) * torch.sin(lat2)
    cos_angle = cos_angle + torch.cos(lat1) * torch.cos(lat2) * torch.cos(lon2 - lon1)  # @fault
    return EARTH_KM * torch.acos(cos_angle.clamp(-1.0, 1.0))  # @fault


def trips(n, gen):
    """Coordinates in degrees, hour of the day, and the trip time in minutes."""
    lat1 = 40.74 + 0.03 * torch.randn(n, generator=gen, dtype=torch.float64)
    lon1 = -73.98 + 0.03 * torch.randn(n, generator=gen, dtype=torch.float64)
    km = 0.2 + 1.8 * torch.rand(n, generator=gen, dtype=torch.float64)
    angle = 6.2831853 * torch.rand(n, generator=gen, dtype=torch.float64)
    lat2 = lat1 + km * torch.sin(angle) / 111.195
    lon2 = lon1 + km * torch.cos(angle) / (111.195 * torch.cos(torch.deg2rad(lat1)))
    hour = 24 * torch.rand(n, generator=gen, dtype=torch.float64)
    speed = 18 - 6 * torch.exp(-((hour - 17.5) ** 2) / 8)
    minutes = 60 * km / speed + 0.1 * torch.randn(n, generator=gen, dtype=torch.float64)
    return [v.to(DTYPE) for v in (lat1, lon1, lat2, lon2, hour, minutes)]


def features(lat1, lon1, lat2, lon2, hour):
    km = great_circle_km(lat1, lon1, lat2, lon2)
    phase = hour * (6.2831853 / 24)
    return torch.stack([km - 1.0, torch.sin(phase), torch.cos(phase)], -1)


gen = torch.Generator().manual_seed(7)
*where_val, y_val = trips(1000, gen)
model = nn.Sequential(nn.Linear(3, 48), nn.SiLU(), nn.Linear(48, 48), nn.SiLU(), nn.Linear(48, 1))
model = model.to(DTYPE)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(150):
    *where, y = trips(128, gen)
    loss = (model(features(*where)).squeeze(-1) - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 30 == 29:
        with torch.no_grad():
            val = (model(features(*where_val)).squeeze(-1) - y_val).pow(2).mean().sqrt()
        print(f"step {step} loss {loss.item():.4f} validation error {val.item():.3f} min")
