"""Loudness-independent sound classification on log power spectra."""

import math
import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(22)
DTYPE = torch.float32 if os.environ.get("REF") else torch.float16
N_FFT, RATE = 1024, 8000
WINDOW = torch.hann_window(N_FFT)


def clips(n, gen):
    """Tones with two kinds of overtones at a random level, and their class."""
    label = torch.randint(2, (n,), generator=gen)
    pitch = 200 + 600 * torch.rand(n, 1, generator=gen)
    level = torch.exp(0.6 * torch.randn(n, 1, generator=gen) - 1.5).clamp(min=0.03)
    t = torch.arange(4096) / RATE
    tone = torch.sin(2 * math.pi * pitch * t)
    ratio = torch.where(label[:, None] == 0, 2.0, 3.0)
    tone = tone + 0.3 * torch.sin(2 * math.pi * ratio * pitch * t)
    noise = 0.01 * torch.randn(n, 4096, generator=gen)
    return (level * tone + noise).clamp(-1.0, 1.0), label


def log_power(wave):
    spec = torch.stft(wave, N_FFT, hop_length=512, window=WINDOW, return_complex=True)
    power = spec.abs().to(DTYPE).pow(2).mean(-1)  # @fault
    bands = power[:, :256].float()
    logs = torch.log(bands + 1e-5)
    return (logs - logs.mean(-1, keepdim=True)) / logs.std(-1, keepdim=True)


gen = torch.Generator().manual_seed(5)
model = nn.Sequential(nn.Linear(256, 48), nn.ReLU(), nn.Linear(48, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(80):
    wave, label = clips(16, gen)
    logits = model(log_power(wave))
    loss = nn.functional.cross_entropy(logits, label)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 10 == 9:
        print(f"step {step} loss {loss.item():.4f}")
