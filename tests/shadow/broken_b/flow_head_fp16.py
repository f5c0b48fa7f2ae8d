"""Trains a per-pixel head that predicts small displacement vectors, under FP16 autocast."""

import os

import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)
torch.manual_seed(3)
REF = bool(os.environ.get("REF"))
HEIGHT, WIDTH = 64, 96


class FlowHead(nn.Module):
    def __init__(self, features=12, hidden=32):
        super().__init__()
        self.inner = nn.Linear(features, hidden)
        self.mid = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, 2)

    def forward(self, x):
        x = F.gelu(self.inner(x))
        x = F.gelu(self.mid(x))
        return self.out(x)


def make_batch(mixer, generator):
    features = torch.randn(HEIGHT * WIDTH, 12, generator=generator)
    flow = torch.tanh(features @ mixer) * 0.01
    return features, flow


def main():
    generator = torch.Generator().manual_seed(11)
    mixer = torch.randn(12, 2, generator=generator) * 0.4
    model = FlowHead()
    nn.init.normal_(model.out.weight, std=0.01)
    nn.init.zeros_(model.out.bias)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(60):
        features, flow = make_batch(mixer, generator)
        with torch.autocast("cpu", dtype=torch.float16, enabled=not REF):
            pred = model(features)
        loss = 0.02 * F.mse_loss(pred.float(), flow)  # @fault
        optimizer.zero_grad()
        loss.backward()  # @fault
        optimizer.step()
        if step % 10 == 0 or step == 59:
            epe = (pred.float() - flow).norm(dim=1).mean() / flow.norm(dim=1).mean()
            print(f"step {step} loss {loss.item():.3e} relative error {epe.item():.4f}")


if __name__ == "__main__":
    main()
