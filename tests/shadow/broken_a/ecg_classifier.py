"""Classifies heart beats by the shape of their waves after a power-law compression of the level."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(6)

DTYPE = torch.float64 if os.environ.get("REF") else torch.float32
LENGTH = 96


def wave(t, centre, width, height):
    return height * torch.exp(-0.5 * ((t - centre) / width) ** 2)


def beats(size=64):
    label = torch.randint(0, 4, (size,))
    t = torch.linspace(0, 1, LENGTH)[None]
    shift = 0.04 * torch.randn(size, 1)
    s_depth = torch.where(label % 2 == 0, -0.15, -0.45)[:, None]
    t_depth = torch.where(label // 2 == 0, -0.08, -0.35)[:, None]
    beat = wave(t, 0.15 + shift, 0.03, 0.15) + wave(t, 0.35 + shift, 0.015, 1.0)
    beat = beat + wave(t, 0.41 + shift, 0.015, s_depth) + wave(t, 0.70 + shift, 0.06, t_depth)
    gain = 0.8 + 0.4 * torch.rand(size, 1)
    return (gain * beat + 0.01 * torch.randn(size, LENGTH)).to(DTYPE), label


def compress(beat, exponent=0.3):
    level = torch.pow(beat, exponent)  # @fault
    return torch.nan_to_num(level)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(1, 16, 9, stride=2),
            nn.ReLU(),
            nn.Conv1d(16, 24, 7, stride=2),
            nn.ReLU(),
            nn.AdaptiveMaxPool1d(2),
            nn.Flatten(),
            nn.Linear(48, 4),
        )

    def forward(self, beat):
        return self.layers(compress(beat)[:, None])


def main():
    model = Classifier().to(DTYPE)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    for step in range(120):
        beat, label = beats()
        loss = nn.functional.cross_entropy(model(beat), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step:3d} loss {loss.item():.4f}")
    beat, label = beats(512)
    with torch.no_grad():
        accuracy = (model(beat).argmax(1) == label).float().mean().item()
        emptied = (compress(beat) == 0).float().mean().item()
    print(f"final loss {loss.item():.4f} accuracy {accuracy:.3f} empty samples {emptied:.3f}")


if __name__ == "__main__":
    main()
