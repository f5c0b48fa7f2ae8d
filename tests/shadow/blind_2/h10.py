"""Gated recurrence that latches a bit shown once and reports it much later (BF16 autocast)."""

import contextlib
import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(110)
REF = os.environ.get("REF")


def precision():
    if REF:
        return contextlib.nullcontext()
    return torch.autocast("cpu", dtype=torch.bfloat16)


class Latch(nn.Module):
    def __init__(self, d_in=3, width=48):
        super().__init__()
        self.gates = nn.Linear(d_in + width, 3 * width)
        self.head = nn.Linear(width, 1)
        self.width = width
        with torch.no_grad():
            self.gates.bias[:width].fill_(7.0)
            self.gates.bias[width : 2 * width].fill_(-6.0)
            self.gates.weight[width : 2 * width, 1] = 9.0

    def forward(self, x):
        cell = x.new_zeros(x.shape[0], self.width)
        hidden = cell
        for t in range(x.shape[1]):
            gates = self.gates(torch.cat([x[:, t], hidden.to(x.dtype)], -1))
            keep, write, value = gates.chunk(3, -1)
            cell = torch.sigmoid(keep) * cell + torch.sigmoid(write) * torch.tanh(value)
            hidden = torch.tanh(cell)
        return self.head(hidden).squeeze(-1)


def batch(n=64, length=40):
    x = torch.zeros(n, length, 3)
    bit = torch.randint(2, (n,)).float()
    when = torch.randint(5, (n,))
    rows = torch.arange(n)
    x[rows, when, 0] = 2 * bit - 1
    x[rows, when, 1] = 1.0
    x[:, :, 2] = 0.3 * torch.randn(n, length)
    return x, bit


model = Latch()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
last = []
for step in range(60):
    x, bit = batch()
    with precision():
        logit = model(x)
    loss = nn.functional.binary_cross_entropy_with_logits(logit.float(), bit)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    last.append(((logit > 0).float() == bit).float().mean().item())
    if step % 10 == 0:
        print(f"step {step} loss {loss.item():.5f} accuracy {last[-1]:.3f}")
print(f"final loss {loss.item():.5f} accuracy {sum(last[-10:]) / 10:.4f}")
