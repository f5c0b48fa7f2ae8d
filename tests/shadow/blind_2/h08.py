"""Network with scaled FP8 matrix products (E4M3 forward, E5M2 backward)."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(108)
REF = os.environ.get("REF")
TOP = {torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0}


def scaled_cast(x, fmt):
    """The tensor at the largest scale that fits the format, and what undoes the scale."""
    if REF:
        return x, 1.0
    scale = TOP[fmt] / x.abs().amax().clamp(min=1e-30)
    return (x * scale).clamp(-TOP[fmt], TOP[fmt]).to(fmt), 1.0 / scale


def product(a, b):
    (qa, ia), (qb, ib) = a, b
    return (qa.float() @ qb.float()) * (ia * ib)


class Fp8Matmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        x8, w8 = scaled_cast(x, torch.float8_e4m3fn), scaled_cast(w.t(), torch.float8_e4m3fn)
        return product(x8, w8)

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        g8 = scaled_cast(grad, torch.float8_e5m2)
        w8 = scaled_cast(w, torch.float8_e4m3fn)
        x8 = scaled_cast(x, torch.float8_e4m3fn)
        return product(g8, w8), product((g8[0].t(), g8[1]), x8)


class Fp8Linear(nn.Linear):
    def forward(self, x):
        return Fp8Matmul.apply(x, self.weight) + self.bias


class Net(nn.Module):
    def __init__(self, d_in=12, dim=64):
        super().__init__()
        self.embed = nn.Linear(d_in, dim)
        self.norm = nn.LayerNorm(dim)
        self.up = Fp8Linear(dim, 2 * dim)
        self.down = Fp8Linear(2 * dim, dim)
        self.head = nn.Linear(dim, 1)

    def forward(self, x):
        x = self.embed(x)
        return self.head(x + self.down(nn.functional.gelu(self.up(self.norm(x)))))


def batch(n=256):
    x = torch.randn(n, 12)
    y = torch.tanh(x[:, :1] * x[:, 1:2]) + torch.sin(2 * x[:, 2:3]) + 0.3 * x[:, 3:4] ** 2
    return x, 1e-3 * y


model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
last = []
for step in range(140):
    x, y = batch()
    loss = (1e-3 * model(x) - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    last.append(loss.item() * 1e6)
    if step % 20 == 0:
        print(f"step {step} loss {loss.item():.3e}")
print(f"final loss (millionths) {sum(last[-10:]) / 10:.4f}")
