"""Gated recurrent classifier on logged measurements (altitude, pressure, flow), BF16 autocast."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(197)
MIXED = not os.environ.get("REF")

UNITS = torch.tensor([1500.0, 101_325.0, 640.0, 290.0])
SPREAD = torch.tensor([400.0, 900.0, 120.0, 9.0])


def flights(size, length=10):
    drift = torch.randn(size, 4)
    wobble = torch.randn(length, size, 4)
    slope = torch.linspace(-1, 1, length)[:, None, None] * drift
    label = (drift[:, 0] - drift[:, 2] + 0.5 * drift[:, 3] > 0).float()
    return UNITS + SPREAD * (slope + 0.3 * wobble), label


class GatedCell(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.from_input = nn.Linear(inputs, 3 * width)
        self.from_state = nn.Linear(width, 3 * width, bias=False)

    def forward(self, x, h):
        a, b = self.from_input(x), self.from_state(h)  # @fault
        cut = 2 * h.shape[1]
        update, reset = torch.sigmoid(a[:, :cut] + b[:, :cut]).chunk(2, dim=1)  # @fault
        proposal = torch.tanh(a[:, cut:] + reset * b[:, cut:])  # @fault
        return update * h + (1 - update) * proposal


class Classifier(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.width, self.cell, self.head = width, GatedCell(4, width), nn.Linear(width, 1)

    def forward(self, series):
        h = series.new_zeros(series.shape[1], self.width)
        for x in series:
            h = self.cell(x, h)
        return self.head(h).squeeze(1)


model = Classifier()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
tail = []
for step in range(100):
    series, label = flights(96)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=MIXED):
        logit = model(series)
    loss = nn.functional.binary_cross_entropy_with_logits(logit.float(), label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    tail.append(loss.item())
    if step % 20 == 0:
        print(f"step {step} loss {loss.item():.4f}")
print(f"mean loss of the last 20 steps {sum(tail[-20:]) / 20:.4f}")
