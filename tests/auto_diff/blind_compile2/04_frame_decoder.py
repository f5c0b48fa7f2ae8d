import torch
from torch import nn
from torch.nn import functional


class Stage(nn.Module):
    def __init__(self, inner: int, outer: int):
        super().__init__()
        self.conv = nn.Conv2d(inner, outer, 3, padding=1)
        self.norm = nn.GroupNorm(4, outer)
        self.gate = nn.Conv2d(outer, outer, 1)

    def forward(self, x):
        x = functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        x = functional.mish(self.norm(self.conv(x)))
        return x * torch.sigmoid(self.gate(functional.adaptive_avg_pool2d(x, 1))) + 0.1 * x.square()


class FrameDecoder(nn.Module):
    """Decoder with weights and activations in BF16."""

    def __init__(self):
        super().__init__()
        self.lift = nn.Linear(12, 16 * 4 * 4)
        self.stages = nn.ModuleList([Stage(16, 12), Stage(12, 8)])
        self.paint = nn.Conv2d(8, 3, 1)

    def forward(self, code):
        x = self.lift(code).view(-1, 16, 4, 4)
        for stage in self.stages:
            x = stage(x)
        return torch.tanh(self.paint(x))


def build():
    torch.manual_seed(4)
    return FrameDecoder().to(torch.bfloat16)
