"""Denoising diffusion of points near a plane: FP32 schedule to pure noise, BF16 network."""

import contextlib
import math
import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(111)
REF = os.environ.get("REF")
STEPS, DIM = 1000, 8

at = torch.arange(STEPS + 1, dtype=torch.float64) / STEPS
curve = torch.cos((at + 0.002) / 1.002 * math.pi / 2) ** 2
alpha_bar = (curve / curve[0]).clamp(min=1e-9)[1:].float()
snr = alpha_bar / (1 - alpha_bar)


def precision():
    if REF:
        return contextlib.nullcontext()
    return torch.autocast("cpu", dtype=torch.bfloat16)


class Denoiser(nn.Module):
    """Predicts the clean data."""

    def __init__(self, width=96):
        super().__init__()
        self.register_buffer("freqs", 2.0 ** torch.arange(6) * math.pi)
        self.net = nn.Sequential(
            nn.Linear(DIM + 12, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU()
        )
        self.head = nn.Linear(width, DIM)

    def forward(self, x, t):
        phase = (t.float() / STEPS)[:, None] * self.freqs
        emb = torch.cat([x, torch.sin(phase), torch.cos(phase)], -1)
        return self.head(self.net(emb))


plane = torch.linalg.qr(torch.randn(DIM, 2))[0]


def points(n):
    angle = 2 * math.pi * torch.rand(n)
    flat = 2 * torch.stack([torch.cos(angle), torch.sin(angle)], -1)
    return flat @ plane.t() + 0.02 * torch.randn(n, DIM)


@torch.no_grad()
def draw(model, n=512, count=25):
    x = torch.randn(n, DIM)
    times = torch.linspace(STEPS - 1, 0, count + 1).long()
    for now, then in zip(times[:-1], times[1:], strict=True):
        with precision():
            data = model(x, now.expand(n)).float()
        a, b = alpha_bar[now], alpha_bar[then]
        noise = (x - a.sqrt() * data) / (1 - a).sqrt()
        x = b.sqrt() * data + (1 - b).sqrt() * noise
    return x


model = Denoiser()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 150)
last = []
for step in range(150):
    x0 = points(256)
    t = torch.randint(STEPS, (256,))
    noise = torch.randn_like(x0)
    a = alpha_bar[t][:, None]
    noisy = a.sqrt() * x0 + (1 - a).sqrt() * noise
    with precision():
        found = model(noisy, t)
    error = (found.float() - x0).pow(2).mean(-1)
    weight = snr[t].clamp(max=5.0)
    loss = (weight * error).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    last.append(loss.item())
    if step % 30 == 0:
        print(f"step {step} loss {loss.item():.4f} log SNR from {snr[-1].log().item():.1f}")
drawn = draw(model)
off_plane = (drawn - drawn @ plane @ plane.t()).norm(dim=-1).mean()
radius = (drawn @ plane).norm(dim=-1)
print(
    f"final loss {sum(last[-20:]) / 20:.4f}, samples off the plane by {off_plane:.3f}, "
    f"radius {radius.mean():.3f} +- {radius.std():.3f}"
)
