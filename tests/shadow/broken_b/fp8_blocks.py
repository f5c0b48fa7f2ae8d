"""Residual blocks whose linear layers compute with FP8-rounded operands in both directions."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(19)
REF = bool(os.environ.get("REF"))
E4M3_MAX = 448.0


def round_to_fp8(tensor, scale):
    if REF:
        return tensor
    scaled = (tensor * scale).clamp(-E4M3_MAX, E4M3_MAX)
    return scaled.to(torch.float8_e4m3fn).to(tensor.dtype) / scale  # @fault


class Fp8Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        x8 = round_to_fp8(x, E4M3_MAX / x.abs().amax().clamp(min=1e-12))
        w8 = round_to_fp8(weight, E4M3_MAX / weight.abs().amax().clamp(min=1e-12))
        ctx.save_for_backward(x8, w8)
        return x8 @ w8.t()

    @staticmethod
    def backward(ctx, grad):
        x8, w8 = ctx.saved_tensors
        g8 = round_to_fp8(grad, 1.0)  # @fault
        return g8 @ w8, g8.t() @ x8


def fp8_linear(x, weight):
    return Fp8Linear.apply(x, weight)  # @fault


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.up = nn.Parameter(torch.randn(2 * dim, dim) / dim**0.5)
        self.down = nn.Parameter(torch.randn(dim, 2 * dim) / (2 * dim) ** 0.5)

    def forward(self, x):
        hidden = torch.relu(fp8_linear(x, self.up))
        return x + 0.5 * fp8_linear(hidden, self.down)


def main():
    generator = torch.Generator().manual_seed(29)
    dim = 24
    model = nn.Sequential(Block(dim), Block(dim), nn.LayerNorm(dim), nn.Linear(dim, 1))
    teacher = torch.randn(dim, 12, generator=generator) * 0.4
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(100):
        x = torch.randn(256, dim, generator=generator)
        hidden = torch.relu(x @ teacher)
        y = 0.1 * (hidden[:, :6].sum(1) - hidden[:, 6:].sum(1))[:, None]
        loss = (model(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0 or step == 99:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
