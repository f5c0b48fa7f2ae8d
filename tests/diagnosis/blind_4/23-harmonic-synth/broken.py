import math
import torch
import torch.nn as nn

torch.manual_seed(23)
SR, SAMPLES, HARMONICS = 8000, 1600, 5


def phases(f0):
    """Instantaneous phase of each harmonic from the pitch curve."""
    increments = 2 * math.pi * f0 / SR
    phase = torch.cumsum(increments.to(torch.bfloat16), dim=-1).float()  # @fault
    return phase[:, None, :] * torch.arange(1, HARMONICS + 1)[None, :, None]


def reference(f0, amps):
    ph = torch.cumsum(2 * math.pi * f0.double() / SR, dim=-1)
    k = torch.arange(1, HARMONICS + 1)[None, :, None]
    return (torch.sin(ph[:, None, :] * k) * amps[:, :, None]).sum(1).float()


class Decoder(nn.Module):
    def __init__(self, controls=6):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(controls, 32), nn.ReLU(), nn.Linear(32, HARMONICS))

    def forward(self, z, f0):
        amps = torch.sigmoid(self.net(z))
        return (torch.sin(phases(f0)) * amps[:, :, None]).sum(1)


timbre = torch.randn(6, HARMONICS)


def notes(n):
    z = torch.randn(n, 6)
    t = torch.linspace(0, 1, SAMPLES)
    f0 = torch.empty(n, 1).uniform_(110.0, 330.0) * (1 + 0.02 * torch.sin(2 * math.pi * 5 * t))
    return z, f0, reference(f0, torch.sigmoid(z @ timbre))


model = Decoder()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(200):
    z, f0, wave = notes(8)
    loss = nn.functional.mse_loss(model(z, f0), wave)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(f"step {step} waveform mse {loss.item():.4f}")
with torch.no_grad():
    z, f0, wave = notes(64)
    snr = 10 * torch.log10(wave.pow(2).mean() / (model(z, f0) - wave).pow(2).mean())
print(f"reconstruction snr {snr.item():.2f} dB")
