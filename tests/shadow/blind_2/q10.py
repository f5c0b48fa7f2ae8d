"""Gated MLP whose gate uses a layer norm that keeps only its output for the backward pass."""

import os

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(10)

DTYPE = torch.float32 if os.environ.get("REF") else torch.bfloat16
WIDTH, STEPS = 48, 120


class LeanLayerNorm(torch.autograd.Function):
    """Saves the output, not the input: the normalised value is recovered from it."""

    @staticmethod
    def forward(ctx, x, weight, eps):
        x32 = x.float()
        mean = x32.mean(-1, keepdim=True)
        rstd = torch.rsqrt(x32.var(-1, unbiased=False, keepdim=True) + eps)
        y = (1.0 + (x32 - mean) * rstd * weight).to(x.dtype)
        ctx.save_for_backward(y, rstd, weight)
        return y

    @staticmethod
    def backward(ctx, grad):
        y, rstd, weight = ctx.saved_tensors
        x_hat = (y.float() - 1.0) / weight  # @fault
        g32 = grad.float()
        grad_weight = (g32 * x_hat).flatten(0, -2).sum(0)
        g = g32 * weight
        along = (g * x_hat).mean(-1, keepdim=True)
        grad_x = (g - g.mean(-1, keepdim=True) - x_hat * along) * rstd
        return grad_x.to(grad.dtype), grad_weight, None


class GatedUnit(nn.Module):
    """The gate is one plus a normalised term that starts near zero."""

    def __init__(self):
        super().__init__()
        self.value = nn.Linear(WIDTH, WIDTH)
        self.gate = nn.Linear(WIDTH, WIDTH)
        self.weight = nn.Parameter(torch.full((WIDTH,), 1e-4))

    def forward(self, x):
        gate = LeanLayerNorm.apply(self.gate(x), self.weight, 1e-5)  # @fault
        return self.value(x) * gate


def batch(n, directions):
    x = torch.randn(n, 8)
    return x, (x @ directions[0]) * (x @ directions[1])


def main():
    directions = torch.randn(2, 8) / 8**0.5
    model = nn.Sequential(nn.Linear(8, WIDTH), GatedUnit(), nn.Linear(WIDTH, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    for step in range(STEPS):
        x, target = batch(256, directions)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=DTYPE is torch.bfloat16):
            prediction = model(x)
        loss = F.mse_loss(prediction.squeeze(-1).float(), target)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
