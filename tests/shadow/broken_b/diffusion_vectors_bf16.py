"""Noise-prediction diffusion training on low-rank vectors, schedule in the model's type."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(13)
HALF = torch.float64 if os.environ.get("REF") else torch.bfloat16
STEPS = 1000


def make_schedule():
    betas = torch.linspace(1e-4, 0.02, STEPS).to(HALF)
    alphas = 1.0 - betas  # @fault
    return torch.cumprod(alphas, dim=0)


class Denoiser(nn.Module):
    def __init__(self, dim=8, hidden=96):
        super().__init__()
        self.inner = nn.Linear(dim + 12, hidden)
        self.mid = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, dim)

    def forward(self, x, t):
        phase = t.float()[:, None] / STEPS * 2.0 ** torch.arange(6) * 1.5
        x = torch.cat([x, phase.sin(), phase.cos()], dim=-1)
        return self.out(nn.functional.silu(self.mid(nn.functional.silu(self.inner(x)))))


def main():
    generator = torch.Generator().manual_seed(23)
    basis = torch.linalg.qr(torch.randn(8, 2, generator=generator))[0].T
    alphas_cumprod = make_schedule()
    model = Denoiser()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    early_sum, early_count = 0.0, 0
    for step in range(150):
        t = torch.randint(0, STEPS, (512,), generator=generator)
        t[:256] = t[:256] // 8
        clean = torch.randn(512, 2, generator=generator) @ basis
        noise = torch.randn(512, 8, generator=generator)
        signal_rate = alphas_cumprod[t].sqrt().float()[:, None]
        noise_rate = (1.0 - alphas_cumprod[t]).sqrt().float()[:, None]  # @fault
        noisy = signal_rate * clean + noise_rate * noise
        error = (model(noisy, t) - noise).square().mean(1)
        loss = error.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step >= 130:
            chosen = (t >= 40) & (t < 95)
            early_sum += error.detach()[chosen].sum().item()
            early_count += int(chosen.sum())
        if step % 25 == 0 or step == 149:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"error for 40 <= t < 95 over the last steps {early_sum / early_count:.4f}")


if __name__ == "__main__":
    main()
