"""Sequence classification with a learned complex filter in FP32 between BF16-autocast layers."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(18)
REF = bool(os.environ.get("REF"))


class FourierFilter(nn.Module):
    def __init__(self, length, width):
        super().__init__()
        self.filter = nn.Parameter(0.2 * torch.randn(length // 2 + 1, width, 2))
        self.register_buffer("window", torch.empty(length, 1))
        self.reset()

    def reset(self):
        self.window.copy_(torch.hann_window(len(self.window), periodic=False).unsqueeze(1))

    def forward(self, x):
        with torch.autocast("cpu", enabled=False):
            spectrum = torch.fft.rfft(x.float() * self.window, dim=1, norm="ortho")
            spectrum = spectrum * torch.view_as_complex(self.filter)
            return torch.fft.irfft(spectrum, n=x.shape[1], dim=1, norm="ortho")


class Model(nn.Module):
    def __init__(self, length=32, width=24):
        super().__init__()
        self.lift = nn.Linear(1, width)
        self.mix = FourierFilter(length, width)
        self.head = nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, 4))

    def forward(self, x):
        x = self.lift(x)
        return self.head(self.mix(x).square().mean(1))


def main():
    time = torch.arange(32) / 32
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    tail = []
    for step in range(120):
        label = torch.randint(0, 4, (64,))
        phase = 6.28 * torch.rand(64, 1)
        wave = torch.sin(6.2832 * (2 * label[:, None] + 2) * time + phase)
        x = (wave + 0.5 * torch.randn(64, 32)).unsqueeze(-1)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not REF):
            logits = model(x)
        loss = nn.functional.cross_entropy(logits.float(), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        tail = (tail + [loss.item()])[-10:]
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {sum(tail) / len(tail):.4f}")


if __name__ == "__main__":
    main()
