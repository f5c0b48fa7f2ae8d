import math

import torch
from torch import nn
import torch.nn.functional as F


def causal_mean(x, mask):
    count = torch.cumsum(mask.long(), dim=-1).clamp(min=1)
    kept = x.float() * mask.unsqueeze(-1)
    running = torch.cumsum(kept, dim=1)
    return (running / count.unsqueeze(-1)).to(x.dtype)
