"""A VQ autoencoder under BF16 autocast: nearest codes, straight-through, EMA codebook in FP32."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(8)
REF = bool(os.environ.get("REF"))


class Codebook(nn.Module):
    def __init__(self, codes, dim, decay=0.95):
        super().__init__()
        self.decay = decay
        self.register_buffer("codes", torch.randn(codes, dim))
        self.register_buffer("counts", torch.ones(codes))
        self.register_buffer("sums", self.codes.clone())

    def forward(self, z):
        with torch.autocast("cpu", enabled=False):
            flat = z.float()
            nearest = torch.cdist(flat, self.codes).argmin(dim=-1)
            quantized = self.codes[nearest]
            if self.training:
                with torch.no_grad():
                    hits = nn.functional.one_hot(nearest, len(self.codes)).float()
                    self.counts.lerp_(hits.sum(0), 1 - self.decay)
                    self.sums.lerp_(hits.t() @ flat, 1 - self.decay)
                    total = self.counts.sum()
                    smooth = (self.counts + 1e-3) / (total + 1e-3 * len(self.codes)) * total
                    self.codes.copy_(self.sums / smooth.unsqueeze(1))
            commitment = (flat - quantized).square().mean()
            return flat + (quantized - flat).detach(), commitment, nearest


class VqAutoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 8))
        self.codebook = Codebook(32, 8)
        self.decoder = nn.Sequential(nn.Linear(8, 48), nn.GELU(), nn.Linear(48, 24))

    def forward(self, x):
        quantized, commitment, nearest = self.codebook(self.encoder(x))
        return self.decoder(quantized), commitment, nearest


def main():
    prototypes = torch.randn(12, 24)
    data = prototypes[torch.randint(0, 12, (2048,))] + 0.1 * torch.randn(2048, 24)
    model = VqAutoencoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(150):
        x = data[torch.randint(0, 2048, (256,))]
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not REF):
            recon, commitment, nearest = model(x)
        loss = (recon.float() - x).square().mean() + 0.25 * commitment
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 25 == 0:
            print(f"step {step} loss {loss.item():.4f} codes in use {len(nearest.unique())}")
    model.eval()
    with torch.no_grad():
        recon, _, _ = model(data)
        final = (recon - data).square().mean()
    print(f"final loss {final.item():.4f}")


if __name__ == "__main__":
    main()
