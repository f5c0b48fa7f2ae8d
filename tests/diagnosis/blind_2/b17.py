"""Quantisation-aware training of a small regression network with eight-bit weights."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(17)
DTYPE = torch.float64 if os.environ.get("REF") else torch.float32


class QLinear(nn.Module):
    def __init__(self, n_in, n_out, bits=8):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_out, n_in) / n_in**0.5)
        self.bias = nn.Parameter(torch.zeros(n_out))
        self.top = 2 ** (bits - 1) - 1

    def quantised(self):
        scale = self.weight.detach().abs().amax(dim=1, keepdim=True) / self.top
        codes = torch.round(self.weight / scale).clamp(-self.top, self.top)  # @fault
        return codes * scale

    def forward(self, x):
        return F.linear(x, self.quantised(), self.bias)


def make_batch(mix, n=64):
    x = torch.randn(n, 10, dtype=torch.float64)
    return x.to(DTYPE), (torch.sin(x @ mix) + 0.5 * torch.cos(x @ mix.flip(0))).to(DTYPE)


def main():
    mix = torch.randn(10, 3, dtype=torch.float64) / 2
    model = nn.Sequential(
        QLinear(10, 64), nn.Tanh(), QLinear(64, 64), nn.Tanh(), QLinear(64, 3)
    ).to(DTYPE)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    recent = []
    for step in range(150):
        x, y = make_batch(mix)
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        recent = [*recent[-19:], loss.item()]
        if step % 15 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final {sum(recent) / len(recent):.5f}")


if __name__ == "__main__":
    main()
