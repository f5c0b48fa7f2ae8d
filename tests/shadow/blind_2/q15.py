"""Variational autoencoder with KL annealing and gradient accumulation, in 16 bits."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(15)
DTYPE = torch.float32 if os.environ.get("REF") else torch.bfloat16
MICRO = 4
STEPS = 120


class VAE(nn.Module):
    def __init__(self, d_in=32, d_z=8, anneal=MICRO * STEPS * 0.9):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(d_in, 64), nn.SiLU(), nn.Linear(64, 2 * d_z))
        self.dec = nn.Sequential(nn.Linear(d_z, 64), nn.SiLU(), nn.Linear(64, d_in))
        self.anneal = anneal
        self.register_buffer("num_batches", torch.zeros(()))

    def forward(self, x):
        if self.training:
            self.num_batches += 1  # @fault
        mean, logvar = self.enc(x).chunk(2, -1)
        z = mean + torch.exp(0.5 * logvar) * torch.randn_like(mean)
        recon = self.dec(z)
        beta = (self.num_batches.float() / self.anneal).clamp(max=1.0)
        mean, logvar = mean.float(), logvar.float()
        kl = 0.5 * (mean.pow(2) + logvar.exp() - 1 - logvar).sum(-1).mean()
        rec = (recon.float() - x.float()).pow(2).sum(-1).mean()
        return rec + beta * kl, rec, kl, beta


basis = torch.randn(6, 32)


def batch(n=32):
    return (torch.randn(n, 6) @ basis * 0.4 + 0.1 * torch.randn(n, 32)).to(DTYPE)


model = VAE().to(DTYPE)
master = [p.detach().float().clone().requires_grad_() for p in model.parameters()]
optimizer = torch.optim.Adam(master, lr=2e-3)
for step in range(STEPS):
    for m in master:
        m.grad = torch.zeros_like(m)
    for _ in range(MICRO):
        loss, rec, kl, beta = model(batch())
        model.zero_grad()
        (loss / MICRO).backward()
        for m, p in zip(master, model.parameters(), strict=True):
            m.grad += p.grad.float()
    optimizer.step()
    with torch.no_grad():
        for m, p in zip(master, model.parameters(), strict=True):
            p.copy_(m)
    if step % 20 == 19:
        print(
            f"step {step} loss {loss.item():.3f} rec {rec.item():.3f} "
            f"kl {kl.item():.3f} beta {beta.item():.3f}"
        )
