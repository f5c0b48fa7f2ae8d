"""Trains a small diffusion model on generated pictures, loss weighted by signal to noise."""

import torch
import torch.nn.functional as F
from diffusers import DDPMScheduler, UNet2DModel
from diffusers.training_utils import compute_snr

torch.manual_seed(21)
model = UNet2DModel(
    sample_size=16,
    in_channels=1,
    out_channels=1,
    block_out_channels=(16, 32),
    layers_per_block=1,
    norm_num_groups=8,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    attention_head_dim=8,
)
schedule = DDPMScheduler(num_train_timesteps=1000, timestep_spacing="trailing")
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)


def pictures(count: int) -> torch.Tensor:
    """Pictures (count, 1, 16, 16) of one bright square each, in [-1, 1]."""
    images = -torch.ones(count, 1, 16, 16)
    for image, (row, column) in zip(images, torch.randint(0, 10, (count, 2)).tolist(), strict=True):
        image[:, row : row + 6, column : column + 6] = 1.0
    return images


for step in range(200):
    images = pictures(16)
    noise, times = torch.randn_like(images), torch.randint(0, 1000, (16,))
    prediction = model(schedule.add_noise(images, noise, times), times).sample
    snr = compute_snr(schedule, times)
    weights = snr.clamp(max=5.0) / snr
    loss = (weights * F.mse_loss(prediction, noise, reduction="none").mean(dim=(1, 2, 3))).mean()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 5 == 0:
        print(f"step {step} loss {loss.item():.4f}")
