"""Trains a small diffusion model on generated pictures, with an average of its weights."""

import torch
import torch.nn.functional as F
from diffusers import DDPMScheduler, UNet2DModel
from diffusers.training_utils import EMAModel

torch.manual_seed(2)
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
schedule = DDPMScheduler(num_train_timesteps=1000)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


def pictures(count: int) -> torch.Tensor:
    """Pictures (count, 1, 16, 16) of one bright square each, in [-1, 1]."""
    images = -torch.ones(count, 1, 16, 16)
    for image, (row, column) in zip(images, torch.randint(0, 10, (count, 2)).tolist(), strict=True):
        image[:, row : row + 6, column : column + 6] = 1.0
    return images


ema = EMAModel(model.parameters(), decay=0.995, min_decay=0.995, foreach=False)
held_out = pictures(64)
held_noise, held_times = torch.randn_like(held_out), torch.randint(0, 1000, (64,))


@torch.no_grad()
def evaluate() -> float:
    noisy = schedule.add_noise(held_out, held_noise, held_times)
    return F.mse_loss(model(noisy, held_times).sample, held_noise).item()


for step in range(140):
    images = pictures(16)
    noise, times = torch.randn_like(images), torch.randint(0, 1000, (16,))
    loss = F.mse_loss(model(schedule.add_noise(images, noise, times), times).sample, noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    ema.step(model.parameters())
    if step % 20 == 20 - 1:
        plain = evaluate()
        ema.store(model.parameters())
        ema.copy_to(model.parameters())
        averaged = evaluate()
        ema.restore(model.parameters())
        print(
            f"step {step} loss {loss.item():.4f} eval {plain:.4f} "
            f"eval of the average {averaged:.4f}"
        )
