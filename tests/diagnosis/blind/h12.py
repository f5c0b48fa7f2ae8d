"""Discrete-code autoencoder: nearest-code quantiser, running-average codebook, two optimizers."""

import os

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(59)
if os.environ.get("REF"):
    torch.set_default_dtype(torch.float64)


class Quantiser(nn.Module):
    def __init__(self, codes=24, width=4, decay=0.9):
        super().__init__()
        self.decay = decay
        self.register_buffer("table", torch.randn(codes, width))
        self.register_buffer("count", torch.ones(codes))
        self.register_buffer("total", self.table.clone())

    @torch.no_grad()
    def track(self, z, pick):
        used = F.one_hot(pick, len(self.table)).to(z.dtype)
        self.count.mul_(self.decay).add_(used.sum(0), alpha=1 - self.decay)
        self.total.mul_(self.decay).add_(used.T @ z, alpha=1 - self.decay)
        self.table.copy_(self.total / self.count.clamp_min(1e-3)[:, None])

    def forward(self, z):
        pick = torch.cdist(z.detach(), self.table).argmin(-1)
        q = self.table[pick]
        if self.training:
            self.track(z, pick)
        commit = F.mse_loss(z, q)
        return z + (q - z).detach(), commit, pick


def mlp(i, o, h=48):
    return nn.Sequential(nn.Linear(i, h), nn.SiLU(), nn.Linear(h, o))


class Auto(nn.Module):
    def __init__(self, features=12, parts=3, width=4):
        super().__init__()
        self.parts, self.width = parts, width
        self.enc = mlp(features, parts * width)
        self.quant = Quantiser(width=width)
        self.dec = mlp(parts * width, features)

    def forward(self, x):
        z = self.enc(x).view(-1, self.width)
        q, commit, pick = self.quant(z)
        return self.dec(q.view(len(x), -1)), commit, pick


def main():
    gen = torch.Generator().manual_seed(4)
    base = torch.randn(3, 5, 12, generator=gen)

    def draw(n):
        k = torch.randint(0, 5, (n, 3), generator=gen)
        x = sum(base[j, k[:, j]] for j in range(3))
        return (x + 0.05 * torch.randn(n, 12, generator=gen)).to(torch.get_default_dtype())

    model = Auto()
    opt_enc = torch.optim.Adam(model.enc.parameters(), lr=4e-3)
    opt_dec = torch.optim.Adam(model.dec.parameters(), lr=4e-3)
    x_val = draw(1000)
    for step in range(200):
        turn = opt_dec if step % 2 else opt_enc
        x = draw(96)
        out, commit, pick = model(x)
        loss = F.mse_loss(out, x) + 0.25 * commit
        opt_enc.zero_grad()
        opt_dec.zero_grad()
        loss.backward()
        turn.step()
        if step % 40 == 0 or step == 199:
            model.eval()
            with torch.no_grad():
                val = F.mse_loss(model(x_val)[0], x_val) / x_val.var()
            model.train()
            used = len(pick.unique())
            print(f"step {step} loss {loss.item():.4f} val/variance {val.item():.4f} codes {used}")


if __name__ == "__main__":
    main()
