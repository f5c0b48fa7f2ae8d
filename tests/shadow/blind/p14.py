"""Variational autoencoder with a delayed weight on the KL term and gradient accumulation."""

import os
from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(83)


@dataclass
class Config:
    compute: torch.dtype = torch.float32 if os.environ.get("REF") else torch.bfloat16
    steps: int = 105
    micro_batches: int = 4
    batch: int = 32
    latent: int = 4
    kl_free_passes: int = 280
    kl_ramp_passes: int = 60
    widths: list = field(default_factory=lambda: [16, 48])


class KLSchedule(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.register_buffer("passes", torch.zeros((), dtype=cfg.compute))  # @fault

    def forward(self):
        self.passes += 1  # @fault
        ramp = (self.passes - self.cfg.kl_free_passes) / self.cfg.kl_ramp_passes
        return ramp.clamp(0.0, 1.0).float()


class VAE(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        inputs, hidden = cfg.widths
        self.encoder = nn.Sequential(
            nn.Linear(inputs, hidden), nn.SiLU(), nn.Linear(hidden, 2 * cfg.latent)
        )
        self.decoder = nn.Sequential(
            nn.Linear(cfg.latent, hidden), nn.SiLU(), nn.Linear(hidden, inputs)
        )
        self.kl_weight = KLSchedule(cfg)

    def forward(self, x):
        mean, log_var = self.encoder(x).float().chunk(2, dim=1)
        z = mean + torch.randn_like(mean) * (0.5 * log_var).exp()
        kl = 0.5 * (mean**2 + log_var.exp() - 1 - log_var).sum(dim=1).mean()
        rebuilt = self.decoder(z).float()
        error = 4 * F.mse_loss(rebuilt, x, reduction="none").sum(dim=1).mean()
        return error + self.kl_weight() * kl, error, kl


cfg = Config()
basis = torch.randn(3, cfg.widths[0])
model = VAE(cfg)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(cfg.steps):
    optimizer.zero_grad()
    for _ in range(cfg.micro_batches):
        x = torch.tanh(torch.randn(cfg.batch, 3) @ basis)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=cfg.compute is not torch.float32):
            loss, error, kl = model(x)
        (loss / cfg.micro_batches).backward()
    optimizer.step()
    if step % 13 == 0:
        print(f"step {step} loss {loss.item():.3f} error {error.item():.3f} kl {kl.item():.2f}")
print(f"final loss {loss.item():.3f} error {error.item():.3f} kl {kl.item():.2f}")
