"""Forward process of a diffusion model and its signal-to-noise weighting."""

import torch


def linear_schedule(steps: int, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Signal and noise factors of each step, in the type of the images."""
    betas = torch.linspace(1e-4, 0.02, steps, device=like.device).to(like.dtype)
    alphas = 1.0 - betas
    kept = torch.cumprod(alphas, dim=0)
    signal = kept.sqrt()
    noise = (1.0 - kept).sqrt()
    return signal, noise


def noising_loss(
    clean: torch.Tensor, noise: torch.Tensor, step: torch.Tensor, steps: int = 1000
) -> torch.Tensor:
    """clean and noise [b, c, h, w], step [b]; the noised images."""
    a, s = linear_schedule(steps, clean)
    shape = (-1, 1, 1, 1)
    noised = a[step].view(shape) * clean + s[step].view(shape) * noise
    return noised - clean
