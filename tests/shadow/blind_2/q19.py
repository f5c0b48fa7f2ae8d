"""Quantisation-aware training of a small network with 4-bit weights."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(19)
DTYPE = torch.float64 if os.environ.get("REF") else torch.float32


def fake_quantise(w, bits=4):
    top = 2 ** (bits - 1) - 1
    scale = w.detach().abs().amax(dim=1, keepdim=True) / top
    return torch.round(w / scale).clamp(-top, top) * scale  # @fault


class QuantLinear(nn.Linear):
    def forward(self, x):
        return nn.functional.linear(x, fake_quantise(self.weight), self.bias)


def batch(n, gen):
    x = torch.randn(n, 10, generator=gen)
    y = torch.sin(x[:, :1] * 2) + x[:, 1:2] * x[:, 2:3]
    return x.to(DTYPE), y.to(DTYPE)


gen = torch.Generator().manual_seed(3)
model = nn.Sequential(
    QuantLinear(10, 64), nn.ReLU(), QuantLinear(64, 64), nn.ReLU(), nn.Linear(64, 1)
).to(DTYPE)
start = model[0].weight.detach().clone()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
last = []
for step in range(150):
    x, y = batch(128, gen)
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    last.append(loss.item())
    if step % 30 == 0:
        print(f"step {step} loss {loss.item():.4f}")
moved = (model[0].weight - start).abs().max().item()
print(f"final loss {sum(last[-10:]) / 10:.4f}, first layer moved by {moved:.2e}")
