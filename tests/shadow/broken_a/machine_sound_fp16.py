"""Tells apart faults of a machine by faint tones in its spectrum, below a loud hum."""

import math
import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(11)

DTYPE = torch.float32 if os.environ.get("REF") else torch.float16
LENGTH, CLASSES = 256, 6


def recordings(size=48):
    label = torch.randint(0, CLASSES, (size,))
    t = torch.arange(LENGTH) / LENGTH
    turn = 2 * math.pi
    hum = torch.sin(turn * (8 * t[None] + torch.rand(size, 1)))
    tone = torch.sin(turn * ((40 + 12 * label[:, None]) * t[None] + torch.rand(size, 1)))
    strength = 2e-4 * (1 + torch.rand(size, 1))
    return hum + strength * tone + 1e-4 * torch.randn(size, LENGTH), label


def log_spectrum(sound):
    window = torch.hann_window(LENGTH)
    spectrum = torch.fft.rfft(sound * window, norm="forward")
    real, imaginary = spectrum.real.to(DTYPE), spectrum.imag.to(DTYPE)
    power = real * real + imaginary * imaginary  # @fault
    return torch.log10(power.float() + 1e-12)


class SoundClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(LENGTH // 2 + 1, 48), nn.ReLU())
        self.out = nn.Linear(48, CLASSES)

    def forward(self, sound):
        return self.out(self.layers(log_spectrum(sound) / 4 + 2))


def main():
    model = SoundClassifier()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(100):
        sound, label = recordings()
        loss = nn.functional.cross_entropy(model(sound), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step:3d} loss {loss.item():.4f}")
    with torch.no_grad():
        sound, label = recordings(400)
        accuracy = (model(sound).argmax(1) == label).float().mean().item()
    print(f"final loss {loss.item():.4f} accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
