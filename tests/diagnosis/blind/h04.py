"""Quantisation-aware training of a regression network with 4-bit weights and activations."""

import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(14)
DTYPE = torch.float64 if os.environ.get("REF") else torch.float32


class Quantize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, low, high):
        level = x / scale
        ctx.save_for_backward((level >= low - 0.5) & (level <= high + 0.5))
        return torch.round(level).clamp(low, high) * scale

    @staticmethod
    def backward(ctx, grad):
        (inside,) = ctx.saved_tensors
        return grad * inside, None, None, None


class QuantLinear(nn.Linear):
    def __init__(self, n_in, n_out, act_range=4.0):
        super().__init__(n_in, n_out)
        self.act_scale = act_range / 15

    def forward(self, x):
        scale = self.weight.detach().abs().amax(1, keepdim=True).clamp(min=1e-8) / 7
        weight = Quantize.apply(self.weight, scale, -8, 7)
        return F.linear(Quantize.apply(x, self.act_scale, 0, 15), weight, self.bias)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = nn.Linear(6, 48)
        self.middle = QuantLinear(48, 48)
        self.leave = QuantLinear(48, 1)

    def forward(self, x):
        x = F.relu(self.enter(x))
        x = F.relu(self.middle(x))
        return self.leave(x).squeeze(-1)


def data(count):
    x = torch.rand(count, 6) * 2 - 1
    y = torch.sin(3 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.5 * x[:, 3]
    return TensorDataset(x.to(DTYPE), y.to(DTYPE))


def evaluate(net, held):
    net.eval()
    with torch.no_grad():
        x, y = held.tensors
        error = F.mse_loss(net(x), y).item()
    net.train()
    return error


def main():
    train, held = data(1600), data(400)
    loader = DataLoader(train, 32, shuffle=True, generator=torch.Generator().manual_seed(2))
    net = Net().to(DTYPE)
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(opt, 1e-2, total_steps=3 * len(loader))
    for epoch in range(3):
        for x, y in loader:
            loss = F.mse_loss(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            schedule.step()
        print(f"epoch {epoch} loss {loss.item():.4f} held {evaluate(net, held):.4f}")


main()
