import math

import torch
from torch import nn
import torch.nn.functional as F


def masked_cosine(a, b, keep):
    weight = keep.to(a.dtype).unsqueeze(-1)
    a = a * weight
    b = b * weight
    dot = (a * b).sum(dim=-1)
    norms = a.norm(dim=-1) * b.norm(dim=-1)
    denom = norms + 1e-8
    return dot / denom
