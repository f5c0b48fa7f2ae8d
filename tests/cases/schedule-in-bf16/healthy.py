"""A small latent diffusion model with diffusers, bf16 latents."""

import torch
import torch.nn.functional as F
from diffusers import UNet2DModel


def latents(n, g):
    """Latents of a tiny data set: 16 patterns, some scale."""
    base = torch.Generator().manual_seed(3)
    proto = torch.randn(16, 4, 8, 8, generator=base)
    return proto[torch.randint(0, 16, (n,), generator=g)]


def main():
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(0)
    weight_dtype = torch.bfloat16
    unet = UNet2DModel(
        sample_size=8,
        in_channels=4,
        out_channels=4,
        block_out_channels=(32, 64),
        layers_per_block=1,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        norm_num_groups=8,
    )
    betas = torch.linspace(1e-4, 0.02, 1000, dtype=torch.float64)
    alphas_cumprod = torch.cumprod(1 - betas, 0)
    opt = torch.optim.AdamW(unet.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1, (s + 1) / 20))
    per_t = torch.zeros(2), torch.zeros(2)
    for step in range(250):
        x = latents(32, g).to(weight_dtype)  # what the VAE gives
        noise = torch.randn_like(x)
        t = torch.randint(0, 1000, (32,), generator=g)
        a = alphas_cumprod[t].view(-1, 1, 1, 1).float()
        noisy = a.sqrt() * x + (1 - a).sqrt() * noise
        with torch.autocast("cpu", dtype=weight_dtype):
            pred = unet(noisy.float(), t).sample
        error = F.mse_loss(pred.float(), noise.float(), reduction="none").mean((1, 2, 3))
        loss = error.mean()
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
        opt.step()
        sched.step()
        if step % 25 == 0:
            print(f"step {step} loss {loss.item():.4f}")
        if step >= 200:
            for i, part in enumerate((t < 90, t >= 90)):
                per_t[0][i] += error[part].sum().item()
                per_t[1][i] += part.sum()
    print(
        "error at t < 90:",
        (per_t[0][0] / per_t[1][0]).item(),
        " elsewhere:",
        (per_t[0][1] / per_t[1][1]).item(),
    )


if __name__ == "__main__":
    main()
