"""Discrete-time survival model for components that rarely fail; BF16 autocast."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(13)

AUTOCAST = not os.environ.get("REF")
FEATURES = 8


class Hazard(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(FEATURES, 32), nn.Tanh(), nn.Linear(32, 1))
        nn.init.constant_(self.layers[-1].bias, -6.5)

    def forward(self, x):
        rate = torch.exp(self.layers(x).squeeze(-1))
        return 1 - torch.exp(-rate)  # @fault


WEIGHT = 0.5 * torch.randn(FEATURES)


def component_days(size=4096):
    x = torch.randn(size, FEATURES)
    hazard = 1.5e-3 * torch.exp(x @ WEIGHT)
    return x, torch.rand(size) < hazard


def negative_log_likelihood(hazard, failed):
    hazard = hazard.float().clamp(1e-6, 1 - 1e-6)
    return -torch.where(failed, hazard.log(), torch.log1p(-hazard)).mean()


def main():
    model = Hazard()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(100):
        x, failed = component_days()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=AUTOCAST):
            hazard = model(x)
        loss = negative_log_likelihood(hazard, failed)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step:3d} loss {loss.item():.5f}")
    with torch.no_grad():
        x, failed = component_days(40000)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=AUTOCAST):
            hazard = model(x)
        impossible = (hazard <= 0).float().mean().item()
        score = negative_log_likelihood(hazard, failed).item()
    print(f"final loss {loss.item():.5f} held-out {score:.5f} zero hazards {impossible:.3f}")


if __name__ == "__main__":
    main()
