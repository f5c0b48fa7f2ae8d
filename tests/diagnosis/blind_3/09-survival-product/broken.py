"""Discrete-time survival analysis: a hazard for each of 40 periods."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(6)
PERIODS = 40
risk = torch.randn(16) / 4


def batch(n):
    x = torch.randn(n, 16)
    time = (torch.rand(n).log() / -(0.05 * torch.exp(x @ risk))).long().clamp(max=PERIODS - 1)
    return x, time


class Hazard(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, PERIODS))

    def forward(self, x):
        return self.net(x)


def negative_log_likelihood(logits, time):
    at = time[:, None]
    hazard = torch.sigmoid(logits)
    survival = torch.cumprod(1 - hazard, dim=1)  # @fault
    before = survival.gather(1, at).log() - (1 - hazard).gather(1, at).log()
    return -(before + hazard.gather(1, at).log()).mean()


model = Hazard()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
for step in range(100):
    x, time = batch(32)
    with torch.autocast("cpu", dtype=torch.float16):
        logits = model(x)
    loss = negative_log_likelihood(logits, time)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    if step % 20 == 0 or step == 99:
        print(f"step {step} nll {loss.item():.4f}")
