"""Quantisation-aware training of a small classifier under BF16 autocast."""

import os

import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)
torch.manual_seed(31)
REF = bool(os.environ.get("REF"))


class FakeQuant(nn.Module):
    """Symmetric 8-bit activations with a moving-average range."""

    def __init__(self):
        super().__init__()
        self.register_buffer("range", torch.tensor(1.0))

    def forward(self, x):
        if self.training:
            self.range.lerp_(x.detach().abs().amax().to(self.range.dtype), 0.1)
        step = (self.range / 127).to(x.dtype)
        levels = torch.clamp(torch.round(x / step), -127, 127)  # @fault
        return levels * step


class QuantNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(16, 24)
        self.stem_quant = FakeQuant()
        self.head = nn.Linear(24, 3)

    def forward(self, x):
        return self.head(self.stem_quant(torch.tanh(self.stem(x))))


def main():
    generator = torch.Generator().manual_seed(37)
    model = QuantNet()
    if REF:
        model.double()
    dtype = torch.float64 if REF else torch.float32
    before = model.stem.weight.detach().clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    for step in range(120):
        x = torch.randn(128, 16, generator=generator).to(dtype)
        label = (x[:, 0] * x[:, 1] > 0).long() + (x[:, 2] * x[:, 3] > 0.3).long()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not REF):
            logits = model(x)
        loss = F.cross_entropy(logits.to(dtype), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0 or step == 119:
            moved = (model.stem.weight.detach() - before).norm().item()
            print(f"step {step} loss {loss.item():.4f} stem moved {moved:.4f}")


if __name__ == "__main__":
    main()
