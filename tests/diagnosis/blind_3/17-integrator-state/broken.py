"""Fitting the drift of a differential equation through its simulation (Euler, 128 steps)."""
import torch
import torch.nn as nn

torch.manual_seed(12)
STEPS = 128


class Drift(nn.Module):
    def __init__(self):
        super().__init__()
        self.rate = nn.Parameter(torch.zeros(4))
        self.mix = nn.Parameter(torch.zeros(4, 4))

    def forward(self, x):
        return self.rate + torch.tanh(x @ self.mix)


def simulate(drift, start, dtype):
    x = start.to(dtype)
    for _ in range(STEPS):
        x = x + (drift(x.float()) / STEPS).to(dtype)  # @fault
    return x.float()


truth = Drift().requires_grad_(False)
truth.rate.copy_(torch.tensor([0.6, -0.8, 0.5, 0.3]))
truth.mix.copy_(torch.randn(4, 4) / 4)
drift = Drift()
optimizer = torch.optim.Adam(drift.parameters(), lr=3e-2)
for step in range(50):
    start = 4 + torch.rand(32, 4) * 3
    with torch.no_grad():
        end = start.clone()
        for _ in range(STEPS):
            end = end + truth(end) / STEPS
    optimizer.zero_grad()
    loss = (simulate(drift, start, torch.bfloat16) - end).pow(2).mean()
    loss.backward()
    optimizer.step()
    if step % 10 == 0 or step == 49:
        print(f"step {step} loss {loss.item():.5f} rate {[round(v, 2) for v in drift.rate.tolist()]}")
