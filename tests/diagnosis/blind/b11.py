"""An autoencoder trained with momentum and a linear warm-up."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(9)
DTYPE = torch.float64 if os.environ.get("REF") else torch.float32
WIDTH, CODE, BATCH, WARMUP, STEPS = 40, 6, 64, 60, 120

mixing = torch.randn(CODE, WIDTH)


def batch():
    x = torch.randn(BATCH, CODE) @ mixing + 0.1 * torch.randn(BATCH, WIDTH)
    return (x / CODE**0.5).to(DTYPE)


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(WIDTH, 64), nn.SiLU(), nn.Linear(64, CODE))
        self.decode = nn.Sequential(nn.Linear(CODE, 64), nn.SiLU(), nn.Linear(64, WIDTH))

    def forward(self, x):
        return self.decode(self.encode(x))


def loss_of(model, x):
    return (model(x) - x).square().sum(-1).mean()


def main():
    model = Autoencoder().to(DTYPE)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)  # @fault
    warm = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / WARMUP))
    for step in range(STEPS):
        loss = loss_of(model, batch())
        opt.zero_grad()
        loss.backward()
        opt.step()
        warm.step()
        if step % 10 == 0 or step == STEPS - 1:
            print(f"step {step} loss {loss.item():.4f} lr {warm.get_last_lr()[0]:.4f}")


if __name__ == "__main__":
    main()
