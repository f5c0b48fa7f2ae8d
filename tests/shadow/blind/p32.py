"""Calibration of a camera array: a gain and an offset per sensor, fitted against a reference."""

import os

import torch

torch.set_num_threads(1)
torch.manual_seed(199)
DTYPE = torch.float32 if os.environ.get("REF") else torch.bfloat16

SENSORS = 128


class Calibration(torch.nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.ones(SENSORS, dtype=dtype))
        self.offset = torch.nn.Parameter(torch.zeros(SENSORS, dtype=dtype))

    def forward(self, raw):
        return raw * self.gain.float() + self.offset.float()


def momentum_step(parameters, velocity, lr, beta=0.9):
    for p, v in zip(parameters, velocity, strict=True):
        v.mul_(beta).add_(p.grad.float())
        p.data.add_((lr * v).to(p.dtype), alpha=-1)  # @fault
        p.grad = None


true_gain = 1 + 0.04 * torch.randn(SENSORS)
true_offset = 0.1 * torch.randn(SENSORS)
model = Calibration(DTYPE)
parameters = list(model.parameters())
velocity = [torch.zeros(SENSORS) for _ in parameters]

for step in range(150):
    raw = 1.5 * torch.randn(64, SENSORS)
    measured = true_gain * raw + true_offset + 0.002 * torch.randn(64, SENSORS)
    loss = 0.5 * (model(raw) - measured).square().mean(dim=0).sum()
    loss.backward()
    momentum_step(parameters, velocity, lr=2e-3)
    if step % 25 == 0:
        print(f"step {step:3d} loss {loss.item():.5f}")

gain_error = (model.gain.detach().float() - true_gain).square().mean().sqrt().item()
print(f"last loss {loss.item():.5f}  root mean square error of the gains {gain_error:.5f}")
