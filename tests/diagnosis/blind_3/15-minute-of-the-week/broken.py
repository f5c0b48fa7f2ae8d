"""Forecasting a sensor from the minute of the week; sines and cosines of a few periods as features."""
import math

import torch
import torch.nn as nn

torch.manual_seed(0)
PERIODS = torch.tensor([12.0, 30.0, 60.0, 1440.0, 10080.0])


def signal(minute):
    m = minute.double()
    return (torch.sin(2 * math.pi * m / 30) + 0.5 * torch.cos(2 * math.pi * m / 12) + 0.5 * torch.sin(2 * math.pi * m / 1440)).float()


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2 * len(PERIODS), 48), nn.ReLU(), nn.Linear(48, 1))

    def forward(self, minute):
        minute = minute.to(torch.bfloat16)  # @fault
        angle = 2 * math.pi * minute[:, None] / PERIODS.to(minute.dtype)
        return self.net(torch.cat([angle.sin(), angle.cos()], 1).float()).squeeze(1)


model = Forecaster()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(120):
    minute = torch.randint(0, 10080, (256,))
    optimizer.zero_grad()
    loss = (model(minute) - signal(minute)).pow(2).mean()
    loss.backward()
    optimizer.step()
    if step % 20 == 0 or step == 119:
        print(f"step {step} loss {loss.item():.4f}")
