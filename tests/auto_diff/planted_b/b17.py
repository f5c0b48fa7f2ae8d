import math

import torch
from torch import nn
import torch.nn.functional as F


def rotary(x, base=10000.0):
    half = x.shape[-1] // 2
    t = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32)
    rate = base ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    angles = t[:, None] * rate[None, :]
    cos, sin = angles.cos(), angles.sin()
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1).to(x.dtype)
