import torch
from torch import nn
from torch.nn import functional


def levels(image):
    """Darkest and brightest value of every row of every channel."""
    low = image.amin(-1, keepdim=True)
    high = image.amax(-1, keepdim=True)
    return low, high


class ScanReader(nn.Module):
    def __init__(self, channels: int = 3):
        super().__init__()
        self.conv = nn.Conv2d(channels, 8, 3, padding=1)
        self.head = nn.Linear(8, 5)

    def stretch(self, image):
        low, high = levels(image)
        kind = self.conv.weight.dtype
        low, high = low.to(kind), high.to(kind)
        return (image.to(kind) - low) / (high - low).clamp(min=1.0)

    def forward(self, image):
        x = self.stretch(image)
        h = functional.leaky_relu(self.conv(x - 0.5), 0.1)
        return self.head(h.mean((-2, -1))), x.mean(-1)


def build():
    torch.manual_seed(5)
    return ScanReader().requires_grad_(False)
