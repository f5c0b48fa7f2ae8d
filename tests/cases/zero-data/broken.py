"""Denoising of a tomogram that is stored as float16 (to save space), as in MRC mode 12."""

import numpy as np
import torch
import torch.nn as nn

rng = np.random.default_rng(0)
torch.manual_seed(0)


def read_volume():
    z, y, x = np.meshgrid(*[np.arange(n) for n in (60, 96, 96)], indexing="ij")
    clean = 40 * np.sin(x / 5) * np.cos(y / 7) * np.sin(z / 4)
    return (clean + 20 * rng.standard_normal(clean.shape)).astype(np.float16)


volume = read_volume()
mean, std = np.mean(volume), np.std(volume)  # @fault
volume = ((volume - mean) / std).astype(np.float32)
print(f"normalised volume: from {volume.min():.2f} to {volume.max():.2f}")


def subvolumes(n, size=16):
    corners = [rng.integers(0, s - size, n) for s in volume.shape]
    return torch.from_numpy(
        np.stack([volume[a : a + size, b : b + size, c : c + size] for a, b, c in zip(*corners)])
    )[:, None]


model = nn.Sequential(
    nn.Conv3d(1, 8, 3, padding=1),
    nn.ReLU(),
    nn.Conv3d(8, 8, 3, padding=1),
    nn.ReLU(),
    nn.Conv3d(8, 1, 3, padding=1),
)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

for step in range(150):
    target = subvolumes(4)
    masked = torch.rand_like(target) < 0.1  # blind spots: predict them from their neighbours
    with torch.autocast("cpu", dtype=torch.bfloat16):
        prediction = model(torch.where(masked, torch.zeros_like(target), target))
    loss = ((prediction.float() - target)[masked] ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 15 == 0 or step == 149:
        print(f"step {step} loss {loss.item():.5f}")
