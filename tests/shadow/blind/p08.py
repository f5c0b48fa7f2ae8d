"""Interpolating a field between survey stations with a learned radial kernel."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(13)
REAL = torch.float64 if os.environ.get("REF") else torch.float32

EASTING, NORTHING = 512_340.0, 5_403_870.0


def field(metres):
    east, north = (metres - metres.new_tensor([EASTING, NORTHING])).unbind(1)
    return torch.sin(east / 220) * torch.cos(north / 310) + 0.3 * torch.sin((east + north) / 150)


def survey(count, generator):
    offset = 1600 * torch.rand(count, 2, generator=generator, dtype=torch.float64)
    metres = offset + torch.tensor([EASTING, NORTHING], dtype=torch.float64)
    return metres.to(REAL), field(metres).to(REAL)


class Interpolator(nn.Module):
    def __init__(self, stations):
        super().__init__()
        self.register_buffer("stations", stations)
        self.heights = nn.Parameter(torch.zeros(len(stations), 1))
        self.log_reach = nn.Parameter(torch.tensor(5.0))

    def forward(self, metres):
        distance = torch.cdist(metres, self.stations)  # @fault
        weight = torch.exp(-0.5 * (distance / self.log_reach.exp()) ** 2)
        return (weight @ self.heights).squeeze(1)


stream = torch.Generator().manual_seed(4)
stations, _ = survey(150, stream)
net = Interpolator(stations).to(REAL)
optimizer = torch.optim.Adam(net.parameters(), lr=0.03)
losses = []
for step in range(150):
    where, truth = survey(256, stream)
    loss = nn.functional.mse_loss(net(where), truth)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    if step % 25 == 0:
        print(f"step {step:3d} mse {loss.item():.4f} reach {net.log_reach.exp().item():.1f} m")
print(f"mse over the last ten steps {sum(losses[-10:]) / 10:.4f}")
