"""Float training followed by quantisation-aware training of a classifier."""

import os

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(23)
DTYPE = torch.float64 if os.environ.get("REF") else torch.float32
WIDTH, CLASSES, BATCH = 24, 8, 64
FLOAT_STEPS, QUANT_STEPS = 30, 120


def fake_quantize(weight, bits=4):
    top = 2 ** (bits - 1) - 1
    scale = weight.detach().abs().max() / top
    return torch.round(weight / scale).clamp(-top - 1, top) * scale  # @fault


class QLinear(nn.Linear):
    quantized = False

    def forward(self, x):
        weight = fake_quantize(self.weight) if self.quantized else self.weight
        return F.linear(x, weight, self.bias)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([QLinear(WIDTH, 64), QLinear(64, 64), QLinear(64, CLASSES)])

    def quantize(self):
        for layer in self.layers:
            layer.quantized = True

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return self.layers[-1](x)


rule = nn.Sequential(nn.Linear(WIDTH, 24), nn.Tanh(), nn.Linear(24, CLASSES, bias=False))


def batch():
    x = torch.randn(BATCH, WIDTH)
    with torch.no_grad():
        return x.to(DTYPE), rule(x).argmax(-1)


def run(model, opt, steps, name):
    losses = []
    for step in range(steps):
        x, y = batch()
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
        if step % 20 == 0 or step == steps - 1:
            tail = losses[-20:]
            print(f"{name} step {step} loss {sum(tail) / len(tail):.4f}")


def main():
    model = Classifier().to(DTYPE)
    run(model, torch.optim.Adam(model.parameters(), lr=3e-3), FLOAT_STEPS, "float")
    model.quantize()
    run(model, torch.optim.Adam(model.parameters(), lr=2e-3), QUANT_STEPS, "quantized")


main()
