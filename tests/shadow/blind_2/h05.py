"""Classifier with FP8 linear layers: E4M3 forward, E5M2 gradients, a scale per tensor."""

import os

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(25)

FP8 = not os.environ.get("REF")
CLASSES, FEATURES, STEPS = 8, 20, 120


def fake_fp8(x, dtype):
    """Scale the largest value to the format's largest, round, and scale back."""
    scale = torch.finfo(dtype).max / x.abs().amax().clamp(min=1e-12)
    return (x * scale).to(dtype).to(x.dtype) / scale


class Fp8Matmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        x8, w8 = fake_fp8(x, torch.float8_e4m3fn), fake_fp8(weight, torch.float8_e4m3fn)
        ctx.save_for_backward(x8, w8)
        return x8 @ w8.t()

    @staticmethod
    def backward(ctx, grad):
        x8, w8 = ctx.saved_tensors
        g8 = fake_fp8(grad, torch.float8_e5m2)
        return g8 @ w8, g8.t() @ x8


class Fp8Linear(nn.Linear):
    def forward(self, x):
        if not FP8:
            return super().forward(x)
        return Fp8Matmul.apply(x, self.weight) + self.bias


class Net(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.first = nn.Linear(FEATURES, width)
        self.norm = nn.LayerNorm(width)
        self.middle = Fp8Linear(width, 2 * width)
        self.back = Fp8Linear(2 * width, width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x):
        x = self.first(x)
        x = x + self.back(F.gelu(self.middle(self.norm(x))))
        return self.head(x)


teacher = nn.Sequential(nn.Linear(FEATURES, 32), nn.Tanh(), nn.Linear(32, CLASSES))
teacher.requires_grad_(False)
teacher[2].weight.mul_(4.0)


def batch(n):
    x = torch.randn(n, FEATURES)
    return x, teacher(x).argmax(1)


model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
for step in range(STEPS):
    x, label = batch(128)
    loss = F.cross_entropy(model(x), label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(f"step {step} loss {loss.item():.4f}")

with torch.no_grad():
    x, label = batch(4000)
    accuracy = (model(x).argmax(1) == label).float().mean().item()
print(f"final loss {loss.item():.4f} accuracy {accuracy:.3f}")
