"""Contrastive training of an encoder on two noisy views of each sample, all in FP16."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)

DTYPE = torch.float32 if os.environ.get("REF") else torch.float16
FEATURES, WIDTH = 40, 32
TEMPERATURE = 0.08


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(FEATURES, 48), nn.Tanh(), nn.Linear(48, WIDTH))

    def forward(self, x):
        return nn.functional.normalize(self.layers(x), dim=1)


def views(size=32):
    sample = torch.randn(size, FEATURES)
    first = sample + 1.5 * torch.randn(size, FEATURES)
    second = sample + 1.5 * torch.randn(size, FEATURES)
    return first.to(DTYPE), second.to(DTYPE)


def contrastive_loss(first, second):
    likeness = torch.exp(first @ second.t() / TEMPERATURE)  # @fault
    chosen = likeness.diagonal()
    by_row = chosen / likeness.sum(dim=1)  # @fault
    by_column = chosen / likeness.sum(dim=0)  # @fault
    return -0.5 * (by_row.log() + by_column.log()).mean()


def main():
    model = Encoder().to(DTYPE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(100):
        first, second = views()
        loss = contrastive_loss(model(first), model(second))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step:3d} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
