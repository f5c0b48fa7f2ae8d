"""Tone classification from log power spectrograms of recorded clips with very different gains."""

import math
import os

import torch
import torch.nn as nn

torch.set_num_threads(1)
torch.manual_seed(22)
HALF = torch.float32 if os.environ.get("REF") else torch.float16
FRAME, FRAMES, CLASSES = 128, 6, 5


def record(n):
    label = torch.randint(0, CLASSES, (n,))
    gain = torch.exp(0.9 * torch.randn(n, 1))
    t = torch.arange(FRAME * FRAMES) / FRAME
    pitch = (6 + 4 * label[:, None]) + 1.5 * torch.randn(n, 1)
    wave = torch.sin(2 * math.pi * pitch * t + 6 * torch.rand(n, 1))
    overtone = torch.sin(4 * math.pi * pitch * t)
    return gain * (wave + 0.5 * overtone + 0.3 * torch.randn(n, FRAME * FRAMES)), label


def log_power(clips):
    frames = clips.view(-1, FRAMES, FRAME) * torch.hann_window(FRAME)
    spectrum = torch.fft.rfft(frames).abs().to(HALF)
    power = spectrum.pow(2)  # @fault
    return torch.log(power + 1e-3).float()


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(FRAME // 2 + 1, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU()
        )
        self.head = nn.Linear(48, CLASSES)

    def forward(self, features):
        features = features - features.mean(dim=(1, 2), keepdim=True)
        return self.head(self.body(features).mean(dim=1))


def main():
    model = Classifier()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    hits = seen = 0
    for step in range(100):
        clips, label = record(24)
        logits = model(log_power(clips))
        loss = nn.functional.cross_entropy(logits, label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step >= 80:
            hits += (logits.argmax(1) == label).sum().item()
            seen += len(label)
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final accuracy {hits / seen:.3f} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
