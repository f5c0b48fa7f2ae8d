"""Classifier for classes of very different frequency, with logits adjusted by the class prior."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(1)

DTYPE = torch.float32 if os.environ.get("REF") else torch.bfloat16
FEATURES, CLASSES = 24, 6
FREQUENCY = torch.tensor([0.55, 0.25, 0.12, 0.05, 0.02, 0.01])


class LongTailClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(FEATURES, 64), nn.GELU(), nn.Linear(64, CLASSES))
        self.register_buffer("seen", torch.ones(CLASSES))

    def count(self, label):
        self.seen.index_add_(0, label, torch.ones_like(label, dtype=DTYPE))  # @fault

    def prior(self):
        seen = self.seen.float()
        return seen / seen.sum()

    def forward(self, x):
        return self.layers(x)


CENTRES = 0.45 * torch.randn(CLASSES, FEATURES)


def batch(size=256, frequency=FREQUENCY):
    label = torch.multinomial(frequency, size, replacement=True)
    return (CENTRES[label] + torch.randn(size, FEATURES)).to(DTYPE), label


def main():
    model = LongTailClassifier().to(DTYPE)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(100):
        x, label = batch()
        model.count(label)
        logits = model(x).float() + model.prior().log()
        loss = nn.functional.cross_entropy(logits, label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step:3d} loss {loss.item():.4f}")
    with torch.no_grad():
        x, label = batch(3000, torch.ones(CLASSES))
        balanced = (model(x).argmax(1) == label).float().mean().item()
    prior = " ".join(f"{p:.3f}" for p in model.prior().tolist())
    print(f"final loss {loss.item():.4f} balanced accuracy {balanced:.3f} prior {prior}")


if __name__ == "__main__":
    main()
