"""A diffusion model of a two-dimensional ring, conditioned on the log signal-to-noise."""

import math
import os

import torch
import torch.nn as nn

torch.set_num_threads(1)
torch.manual_seed(20)
HALF = torch.float32 if os.environ.get("REF") else torch.float16
TIMES, STEPS, BATCH = 1000, 120, 8


def ring(n):
    angle = torch.rand(n) * 2 * math.pi
    return torch.stack([angle.cos(), angle.sin()], dim=1) + 0.05 * torch.randn(n, 2)


class Schedule:
    def __init__(self, dtype):
        betas = torch.linspace(1e-4, 0.02, TIMES).to(dtype)
        self.alpha_bar = torch.cumprod(1.0 - betas, dim=0)  # @fault

    def at(self, t):
        alpha_bar = self.alpha_bar[t][:, None]
        log_snr = torch.log(alpha_bar) - torch.log(1.0 - alpha_bar)  # @fault
        return alpha_bar.float(), log_snr.float()


class Denoiser(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(3, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 2)
        )

    def forward(self, x, log_snr):
        return self.net(torch.cat([x, log_snr / 4], dim=1))


def main():
    schedule = Schedule(HALF)
    model = Denoiser()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    recent = []
    for step in range(STEPS):
        x0 = ring(BATCH)
        t = torch.randint(0, TIMES, (BATCH,))
        noise = torch.randn_like(x0)
        alpha_bar, log_snr = schedule.at(t)
        xt = alpha_bar.sqrt() * x0 + (1 - alpha_bar).sqrt() * noise
        loss = (model(xt, log_snr) - noise).square().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        recent = [*recent[-29:], loss.item()]
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final {sum(recent) / len(recent):.4f}")


if __name__ == "__main__":
    main()
