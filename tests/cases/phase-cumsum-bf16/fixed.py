"""Neural source-filter vocoder: sines of the pitch contour, a small filter on top; the whole model in bf16."""

import math

import torch
import torch.nn as nn

torch.manual_seed(0)
RATE, LENGTH, HARMONICS = 16000, 8000, 4


class Source(nn.Module):
    """f0 [batch, samples] in Hz -> harmonics' sines [batch, samples, HARMONICS]"""

    def forward(self, f0):
        step = f0[..., None] * torch.arange(1, HARMONICS + 1, device=f0.device) / RATE
        phase = torch.cumsum(step.double(), dim=1) % 1.0
        return torch.sin(2 * math.pi * phase).bfloat16()


class Vocoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.source = Source()
        self.filter = nn.Sequential(nn.Linear(HARMONICS, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, f0):
        return self.filter(self.source(f0)).squeeze(-1)


def batch(n):
    start, end = torch.rand(2, n, 1) * 200 + 100
    f0 = start + (end - start) * torch.linspace(0, 1, LENGTH)
    phase = 2 * math.pi * torch.cumsum(f0.double() / RATE, 1)
    wave = sum(torch.sin(k * phase) / k for k in range(1, HARMONICS + 1)) * 0.5
    return f0, wave.float()


model = Vocoder().bfloat16()
master = [p.detach().float().requires_grad_() for p in model.parameters()]
optimizer = torch.optim.Adam(master, lr=3e-3)

for step in range(300):
    f0, wave = batch(4)
    loss = (model(f0).float() - wave).abs().mean()
    loss.backward()
    for m, p in zip(master, model.parameters()):
        m.grad, p.grad = p.grad.float(), None
    optimizer.step()
    with torch.no_grad():
        for m, p in zip(master, model.parameters()):
            p.copy_(m)
    if step % 30 == 0 or step == 299:
        print(f"step {step} loss {loss.item():.4f} (silence would be {wave.abs().mean():.4f})")
