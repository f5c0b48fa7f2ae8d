"""Multi-channel leaky-integrator state-space layer fitted to slow sensor averages."""

import math
import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(13)
DTYPE = torch.float32 if os.environ.get("REF") else torch.bfloat16


class LeakySSM(nn.Module):
    def __init__(self, d_in, d_state, d_out):
        super().__init__()
        taus = torch.logspace(math.log10(700), math.log10(9000), d_state)
        self.log_dt = nn.Parameter(torch.log(1.0 / taus))
        self.in_proj = nn.Linear(d_in, d_state)
        self.out_proj = nn.Linear(d_state, d_out)

    def forward(self, x):
        drive = self.in_proj(x).float()
        decay = torch.exp(-torch.exp(self.log_dt))  # @fault
        gain = 1 - decay  # @fault
        state = drive.new_zeros(x.shape[0], drive.shape[-1])
        states = []
        for t in range(x.shape[1]):
            state = decay * state + gain * drive[:, t]
            states.append(state)
        hidden = torch.stack(states, 1) * 20.0
        return self.out_proj(hidden.to(self.out_proj.weight.dtype))


def sensor_batch(n=32, length=80, channels=4):
    level = torch.randn(n, 1, channels)
    x = level + 0.5 * torch.randn(n, length, channels)
    taus = torch.tensor([600.0, 1000.0, 1500.0, 2500.0])
    keep = torch.exp(-1.0 / taus)
    mean = torch.zeros(n, channels)
    ys = []
    for t in range(length):
        mean = keep * mean + (1 - keep) * x[:, t]
        ys.append(mean)
    return x, torch.stack(ys, 1) * 20.0


model = LeakySSM(4, 48, 4).to(DTYPE)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.0)
last = []
for step in range(80):
    x, y = sensor_batch()
    pred = model(x.to(DTYPE))
    loss = (pred.float() - y).pow(2).mean() / y.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    last.append(loss.item())
    if step % 20 == 0:
        print(f"step {step} relative error {loss.item():.4f}")
dead = (torch.exp(-torch.exp(model.log_dt.detach())) == 1).sum().item()
print(f"final relative error {sum(last[-10:]) / 10:.4f}, channels that never forget: {dead} of 48")
