"""Discrete-time hazard model (complementary log-log) with per-interval exposure."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(59)
DTYPE = torch.float64 if os.environ.get("REF") else torch.float32


class Hazard(nn.Module):
    def __init__(self, covariates=6):
        super().__init__()
        self.linear = nn.Linear(covariates, 1)
        nn.init.constant_(self.linear.bias, -2.0)

    def negative_log_likelihood(self, x, exposure, event):
        log_rate = self.linear(x).squeeze(1)
        cumulative = torch.exp(log_rate) * exposure
        log_event = torch.log(1.0 - torch.exp(-cumulative))  # @fault
        return -torch.where(event, log_event, -cumulative).mean()


def make_cohort(generator, rows=512):
    x = torch.randn(rows, 6, generator=generator)
    effect = torch.tensor([1.5, -1.0, 0.5, 0.0, 0.0, 0.0])
    exposure = 10.0 ** (-6.0 + 6.0 * torch.rand(rows, generator=generator))
    rate = torch.exp(x @ effect - 1.0)
    event = torch.rand(rows, generator=generator) < 1 - torch.exp(-rate * exposure)
    event[0], exposure[0] = True, 1e-6
    return x.to(DTYPE), exposure.to(DTYPE), event


def main():
    generator = torch.Generator().manual_seed(61)
    model = Hazard().to(DTYPE)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-2)
    for step in range(80):
        x, exposure, event = make_cohort(generator)
        loss = model.negative_log_likelihood(x, exposure, event)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0 or step == 79:
            print(f"step {step} loss {loss.item():.4f} bias {model.linear.bias.item():.3f}")


if __name__ == "__main__":
    main()
