"""A denoising diffusion model on short waves, in bfloat16."""

import math
import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(8)
DTYPE = torch.float32 if os.environ.get("REF") else torch.bfloat16
LENGTH, TIMES, BATCH, STEPS = 16, 400, 256, 180


class Diffusion:
    def __init__(self, dtype):
        betas = torch.linspace(1e-4, 0.02, TIMES, dtype=dtype)
        self.alphas = 1.0 - betas  # @fault
        self.kept = torch.cumprod(self.alphas, 0)  # @fault

    def noised(self, clean, t, noise):
        kept = self.kept[t].unsqueeze(-1)
        return kept.sqrt() * clean + (1 - kept).sqrt() * noise


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("rates", torch.exp(-math.log(1000) * torch.arange(16) / 16))
        self.inside = nn.Linear(LENGTH + 32, 128)
        self.middle = nn.Linear(128, 128)
        self.outside = nn.Linear(128, LENGTH)

    def forward(self, x, t):
        angle = t.float().unsqueeze(-1) * self.rates.float()
        when = torch.cat([angle.sin(), angle.cos()], -1).to(x.dtype)
        hidden = torch.nn.functional.silu(self.inside(torch.cat([x, when], -1)))
        return self.outside(hidden + torch.nn.functional.silu(self.middle(hidden)))


def waves(count):
    phase = torch.rand(count, 1) * 2 * math.pi
    rate = torch.randint(1, 3, (count, 1))
    grid = torch.arange(LENGTH) / LENGTH * 2 * math.pi
    return torch.sin(rate * grid + phase)


def main():
    diffusion = Diffusion(DTYPE)
    model = Denoiser()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    recent = []
    for step in range(STEPS):
        clean = waves(BATCH).to(DTYPE)
        noise = torch.randn(BATCH, LENGTH).to(DTYPE)
        t = torch.randint(TIMES, (BATCH,))
        x = diffusion.noised(clean, t, noise)
        with torch.autocast("cpu", torch.bfloat16, enabled=DTYPE == torch.bfloat16):
            guess = model(x, t)
        loss = nn.functional.mse_loss(guess.float(), noise.float())
        opt.zero_grad()
        loss.backward()
        opt.step()
        recent = (recent + [loss.item()])[-30:]
        if step % 30 == 0 or step == STEPS - 1:
            print(f"step {step} loss {sum(recent) / len(recent):.4f}")


main()
