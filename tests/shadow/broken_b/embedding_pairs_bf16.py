"""Metric learning with a margin loss on all pairs of a batch, the encoder under BF16 autocast."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(83)
REF = bool(os.environ.get("REF"))
DTYPE = torch.float64 if REF else torch.float32


def pairwise_distance(z):
    gap = z[:, None, :] - z[None, :, :]
    return gap.square().sum(-1).sqrt()  # @fault


def margin_loss(z, label, margin=1.0):
    distance = pairwise_distance(z)
    same = label[:, None] == label[None, :]
    pull = distance[same].square().mean()
    push = torch.relu(margin - distance[~same]).square().mean()
    return pull + push


def augment(x, generator):
    """Drops channels at random; a light augmentation that often leaves a row as it was."""
    keep = torch.rand(x.shape, generator=generator) > 0.002
    return x * keep


def main():
    generator = torch.Generator().manual_seed(89)
    centres = torch.randn(6, 16, generator=generator)
    encoder = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)).to(DTYPE)
    optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-3)
    for step in range(60):
        label = torch.randint(0, 6, (24,), generator=generator)
        x = centres[label] + 0.6 * torch.randn(24, 16, generator=generator)
        views = torch.cat([augment(x, generator), augment(x, generator)]).to(DTYPE)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not REF):
            z = encoder(views)
        loss = margin_loss(z.to(DTYPE), torch.cat([label, label]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0 or step == 59:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
