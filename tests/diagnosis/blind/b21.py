"""Autoencoder with relaxed categorical codes; the relaxation is annealed per chunk of data."""

import os

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(17)
REF = bool(os.environ.get("REF"))
HALF = torch.float64 if REF else torch.bfloat16
FULL = torch.float64 if REF else torch.float32
torch.set_default_dtype(FULL)


class CodeModel(nn.Module):
    def __init__(self, features=16, groups=6, codes=8, tau=2.4, anneal=0.997):
        super().__init__()
        self.groups, self.codes, self.anneal = groups, codes, anneal
        self.enc = nn.Sequential(nn.Linear(features, 64), nn.ReLU(), nn.Linear(64, groups * codes))
        self.dec = nn.Sequential(nn.Linear(groups * codes, 64), nn.ReLU(), nn.Linear(64, features))
        self.register_buffer("tau", torch.full((), tau, dtype=HALF))  # @fault

    def cool(self):
        self.tau.mul_(self.anneal).clamp_(min=0.1)  # @fault

    def forward(self, x):
        logits = self.enc(x).unflatten(-1, (self.groups, self.codes))
        if self.training:
            noise = -torch.log(-torch.log(torch.rand_like(logits).clamp(1e-6, 1 - 1e-6)))
            z = F.softmax((logits + noise) / self.tau, dim=-1)
        else:
            z = F.one_hot(logits.argmax(-1), self.codes).to(x.dtype)
        return self.dec(z.flatten(-2))


gen = torch.Generator().manual_seed(6)
mix = torch.randn(5, 16, generator=gen)


def sample(n):
    return torch.tanh(torch.randn(n, 5, generator=gen).sign() @ mix / 2)


model = CodeModel()
opt = torch.optim.Adam(model.parameters(), lr=4e-3)
x_val = sample(1000)
ACCUMULATE = 4
for step in range(180):
    opt.zero_grad()
    total = 0.0
    for _ in range(ACCUMULATE):
        x = sample(32)
        loss = F.mse_loss(model(x), x) / ACCUMULATE
        loss.backward()
        model.cool()
        total += loss.item()
    opt.step()
    if step % 30 == 0 or step == 179:
        model.eval()
        with torch.no_grad():
            val = F.mse_loss(model(x_val), x_val).item()
        model.train()
        print(f"step {step} loss {total:.4f} hard-code val {val:.4f}")
