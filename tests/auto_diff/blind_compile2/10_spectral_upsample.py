import torch
from torch import nn
from torch.nn import functional


class Widen(nn.Module):
    """Widens a short spectrogram in time, a little in frequency."""

    def __init__(self, channels: int, scale=(1.3, 2.0)):
        super().__init__()
        self.scale = scale
        self.before = nn.Conv2d(channels, channels, (1, 3), padding=(0, 1))
        self.after = nn.Conv2d(channels, channels, (1, 3), padding=(0, 1))

    def forward(self, x):
        x = functional.silu(self.before(x))
        x = functional.interpolate(x, scale_factor=self.scale, mode="nearest")
        return self.after(x)


class Vocoder(nn.Module):
    def __init__(self, channels: int = 6):
        super().__init__()
        self.enter = nn.Conv2d(1, channels, 1)
        self.first = Widen(channels)
        self.second = Widen(channels, scale=(1.0, 3.0))
        self.leave = nn.Conv2d(channels, 2, 1)

    def forward(self, x):
        x = self.enter(x)
        x = self.second(functional.silu(self.first(x)))
        gain, phase = self.leave(x).unbind(1)
        return torch.sigmoid(4 * gain) * torch.cos(4 * phase)


def build():
    torch.manual_seed(10)
    return Vocoder()
