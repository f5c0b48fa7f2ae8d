"""Diagonal state-space channels learn the time constants of a slow process."""

import os

import torch
import torch.nn as nn

torch.set_num_threads(1)
torch.manual_seed(13)
HALF = torch.float32 if os.environ.get("REF") else torch.bfloat16
CHANNELS, LENGTH, BATCH, STEPS = 24, 160, 12, 90


class LeakySSM(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.log_dt = nn.Parameter(torch.full((channels,), -6.2))
        self.gain = nn.Parameter(torch.ones(channels))

    def forward(self, x):
        dt = torch.exp(self.log_dt)
        decay = torch.exp(-dt.to(x.dtype))  # @fault
        drive = (x * self.gain.to(x.dtype)).float()
        state = torch.zeros(x.shape[0], x.shape[2])
        outputs = []
        for t in range(x.shape[1]):
            state = decay * state + drive[:, t]
            outputs.append(state)
        return torch.stack(outputs, dim=1)


def teacher(x, rates):
    state = torch.zeros(x.shape[0], x.shape[2])
    outputs = []
    for t in range(x.shape[1]):
        state = torch.exp(-rates) * state + x[:, t]
        outputs.append(state)
    return torch.stack(outputs, dim=1)


rates = torch.exp(torch.linspace(-7.6, -4.6, CHANNELS))
model = LeakySSM(CHANNELS)
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
losses = []
for step in range(STEPS):
    x = torch.randn(BATCH, LENGTH, CHANNELS) * 0.3 + 0.2
    with torch.no_grad():
        y = teacher(x, rates)
    out = model(x.to(HALF))
    loss = ((out - y) ** 2).mean() / y.var()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    if step % 10 == 0:
        print(f"step {step} loss {loss.item():.5f}")
print(f"final {sum(losses[-10:]) / 10:.6f}")
