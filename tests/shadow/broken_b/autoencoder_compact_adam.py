"""Trains an autoencoder with a hand-written Adam that stores its state compactly."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(2)
STATE = torch.float64 if os.environ.get("REF") else torch.float16


class CompactAdam:
    """Adam in FP32 arithmetic; the moments are kept in a smaller type between the steps."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        self.params = list(params)
        self.lr, self.betas, self.eps, self.t = lr, betas, eps, 0
        self.first = [torch.zeros_like(p, dtype=STATE) for p in self.params]
        self.second = [torch.zeros_like(p, dtype=STATE) for p in self.params]

    @torch.no_grad()
    def step(self):
        self.t += 1
        b1, b2 = self.betas
        for i, p in enumerate(self.params):
            m = b1 * self.first[i].float() + (1 - b1) * p.grad
            v = b2 * self.second[i].float() + (1 - b2) * p.grad.square()
            self.first[i] = m.to(STATE)
            self.second[i] = v.to(STATE)  # @fault
            m_hat = self.first[i].float() / (1 - b1**self.t)
            v_hat = self.second[i].float() / (1 - b2**self.t)
            p -= self.lr * m_hat / (v_hat.sqrt() + self.eps)  # @fault
            p.grad = None


def main():
    model = nn.Sequential(nn.Linear(32, 24), nn.Tanh(), nn.Linear(24, 6), nn.Linear(6, 32))
    optimizer = CompactAdam(model.parameters(), lr=2e-3)
    generator = torch.Generator().manual_seed(9)
    basis = torch.randn(6, 32, generator=generator) / 6**0.5
    for step in range(120):
        batch = torch.randn(64, 6, generator=generator) @ basis * 0.2
        loss = (model(batch) - batch).square().mean()
        loss.backward()
        optimizer.step()
        if step % 10 == 0 or step == 119:
            print(f"step {step} loss {loss.item():.5f}")


if __name__ == "__main__":
    main()
